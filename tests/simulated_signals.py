"""The keys in the store by which a test controls a simulated stage and observes it."""


def signal_key(what: str, stage: str, node: str) -> str:
    """The key of a signal: a test sets `hold` or `fail`, which a stage obeys.

    With `vary` of the answers each, their lengths follow from the deltas, and the scores from the answers.
    With `reuse` of the answers each, one that the store has is not generated again, as those of the target; with `cut`
    the cap of tokens cuts them.  With `thorough` of the judge each, answers that are too short are wrong.
    A stage counts how often it `began` and `ended`.
    """
    return f"test:{what}:{stage}:{node}"
