"""Strict schemas: what they require, and where a reply does not fit."""

from __future__ import annotations

import pytest

from tasks.openai.schema import mismatch, not_strict, strict_object

VERDICT = strict_object(
    {
        "reasoning": {"type": "string"},
        "category": {"type": "string", "enum": ["text", "numerical"]},
        "value": {"type": ["number", "null"]},
        "parts": {"type": "array", "items": strict_object({"n": {"type": "integer"}})},
        "either": {"anyOf": [{"type": "string"}, {"type": "boolean"}]},
    }
)
GOOD = {"reasoning": "r", "category": "text", "value": None, "parts": [{"n": 1}], "either": True}


def test_a_strict_object_requires_all_in_order():
    assert VERDICT["required"] == ["reasoning", "category", "value", "parts", "either"]
    assert not_strict(VERDICT) is None
    assert mismatch(GOOD, VERDICT) is None


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"reasoning": 1}, "$.reasoning"),
        ({"category": "prose"}, "$.category"),
        ({"value": True}, "$.value"),
        ({"value": float("nan")}, "$.value"),
        ({"value": "1"}, "$.value"),
        ({"parts": [{"n": 1}, {"n": 1.5}]}, r"$.parts[1].n"),
        ({"parts": {}}, "$.parts"),
        ({"either": None}, "$.either"),
        ({"extra": 1}, "extra"),
    ],
)
def test_a_mismatch_names_its_place(change, place):
    assert place in (mismatch({**GOOD, **change}, VERDICT) or "")


def test_a_missing_key_is_a_mismatch():
    assert mismatch({"reasoning": "r"}, VERDICT) == "$.category: is missing"
    assert mismatch([], VERDICT) == "$: a list of 0 is not an object"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array"},
        {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"type": "string"}}, "required": [], "additionalProperties": False},
        strict_object({"a": {"type": "object", "properties": {}}}),
        strict_object({"a": {"type": "array", "items": {"type": "object", "properties": {}}}}),
    ],
)
def test_schemas_that_strict_mode_refuses(schema):
    assert not_strict(schema)
