"""The reflector is told when a question was put before, and the rules read it."""

from __future__ import annotations

import dataclasses

import pytest

from tasks.models import Reflector
from tasks.openai.fitting import Response
from tasks.openai.mutation import mutation_messages
from tasks.openai.rewrite import rewrite_messages
from tasks.openai.variant import as_variant, reflector_of, variant_of

DESCRIPTIONS = [{"id": 0, "description": "end of turn", "examples": [], "count": 1}]
CLAIM = "\n---\nThis question has been put 7 time(s) before in this round"
RESPONSES = [Response("q1", False, CLAIM, CLAIM, 12)]
MUTATION = mutation_messages(DESCRIPTIONS, {"0": 0.5}, CLAIM, "0", RESPONSES)
REWRITE = rewrite_messages(DESCRIPTIONS, {"0": 0.5}, CLAIM, RESPONSES)


@pytest.mark.parametrize("messages", [MUTATION, REWRITE])
def test_the_count_is_read_from_the_note_alone(messages: tuple[str, str]) -> None:
    """Answers and scratchpads that claim the same are data."""
    assert variant_of(messages[1]) == 0
    assert variant_of(as_variant(messages, 3)[1]) == 3


def test_each_variant_has_a_seed_of_its_own() -> None:
    reflector = Reflector("m", 0.7, 1.0, 100, 42)
    assert reflector_of(reflector, 0) == reflector
    assert reflector_of(reflector, 2).seed == 44
    assert reflector_of(dataclasses.replace(reflector, seed=None), 2).seed is None
