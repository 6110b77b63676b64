"""Where a reply does not fit its strict schema."""

from __future__ import annotations

import pytest

from tasks.openai.schema import mismatch, strict_object

VERDICT = strict_object(
    {
        "reasoning": {"type": "string"},
        "category": {"type": "string", "enum": ["text", "numerical"]},
        "value": {"type": ["number", "null"]},
        "parts": {"type": "array", "items": strict_object({"n": {"type": "integer"}})},
    }
)
GOOD = {"reasoning": "r", "category": "text", "value": None, "parts": [{"n": 1}]}


@pytest.mark.parametrize(
    "change",
    [{"reasoning": 1}, {"category": "prose"}, {"value": True}, {"parts": [{"n": 1}, {"n": 1.5}]}, {"extra": 1}],
)
def test_a_mismatch_is_found(change):
    assert mismatch(GOOD, VERDICT) is None
    assert mismatch({**GOOD, **change}, VERDICT)


def test_a_missing_key_is_a_mismatch():
    assert mismatch({"reasoning": "r"}, VERDICT) and mismatch([], VERDICT)
