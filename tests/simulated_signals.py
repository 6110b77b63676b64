"""How a test and a simulated stage speak of each other, in the store."""


def told(what: str, stage: str, node: str) -> str:
    """The key by which a test tells a stage to `hold` or `fail`, or counts that it `began`."""
    return f"test:{what}:{stage}:{node}"
