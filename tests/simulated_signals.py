"""How a test and a simulated stage speak of each other, in the store."""


def told(what: str, stage: str, node: str) -> str:
    """The key by which a test tells a stage to `hold`, to `fail` or how many `seconds` to take.

    Also the key by which it knows how often the stage `began` and `ended`, and `by` which processes.
    """
    return f"test:{what}:{stage}:{node}"
