"""The rule reflector for a whole vector: usable replies, and a search that goes back from what did not help."""

from __future__ import annotations

from typing import Any

from tasks.common.validation import check_value
from tasks.openai.reflect import Response, Rewrite, as_variant, rewrite_messages
from workers.embedded.rules.reflector import rewrite

IDS = ("0", "1", "2")
ZERO = dict.fromkeys(IDS, 0.0)
CLUSTERS = [
    {"id": 0, "description": "end of turn", "examples": ["<|im_end|>"], "count": 1},
    {"id": 1, "description": "digits and arithmetic", "examples": ["1", "2", "+"], "count": 20},
    {"id": 2, "description": "function words", "examples": [" the", " of", "And"], "count": 300},
]


def responses(tokens: int, correct: int = 4) -> list[Response]:
    return [Response(f"q{i}", i < correct, "why", "the answer of the page and the table", tokens) for i in range(4)]


def asked(deltas: dict[str, float], summary: str, given: list[Response], variant: int = 0) -> tuple[Rewrite, str]:
    """A proposal, and the summary after it."""
    reply: Any = rewrite(*as_variant(rewrite_messages(CLUSTERS, deltas, summary, given), variant))
    found = check_value(Rewrite.of(IDS), reply)
    return found, "\n".join(filter(None, [summary, found.summary]))


def values(found: Rewrite) -> tuple[float, ...]:
    return tuple(found.deltas.model_dump().values())


def test_the_first_proposal_raises_the_end_of_turn_and_lowers_what_long_answers_use() -> None:
    found, summary = asked(ZERO, "", responses(60))
    assert values(found) == (1.0, 0.25, -0.5)
    assert summary == '60.0 tokens, 1 correct with {"0": 0.0, "1": 0.0, "2": 0.0}'


def test_a_step_that_helped_is_repeated() -> None:
    first, summary = asked(ZERO, "", responses(60))
    second, _ = asked(first.deltas.model_dump(), summary, responses(40))
    assert values(second) == (2.0, 0.5, -1.0)


def test_after_a_step_that_hurt_the_next_is_half_way_back_to_the_best() -> None:
    first, summary = asked(ZERO, "", responses(60))
    second, _ = asked(first.deltas.model_dump(), summary, responses(40, correct=1))
    assert values(second) == (0.5, 0.125, -0.25)
