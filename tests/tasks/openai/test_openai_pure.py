"""Errors, schemas, usage and waits: the parts of the client that need no server."""

from __future__ import annotations

import pickle

import pytest

from tasks.models import Endpoint
from tasks.openai import errors
from tasks.openai.provider import Usage, cost_usd, estimate_tokens
from tasks.openai.retry_policy import requested_wait_s
from tasks.openai.schema import mismatch, not_strict, strict_object

ALL_ERRORS = [
    value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, errors.CallError)
]


@pytest.mark.parametrize("kind", ALL_ERRORS)
def test_errors_travel_between_processes(kind):
    error = kind("what\nhappened", "raw text")
    for copy in (pickle.loads(pickle.dumps(error)), kind(*error.args)):  # the second is how Celery's JSON does it
        assert type(copy) is kind
        assert (str(copy), copy.raw) == ("what happened", "raw text")


def test_only_what_may_pass_by_itself_is_transient():
    transient = {kind.__name__ for kind in ALL_ERRORS if kind.is_transient}
    assert transient == {"RateLimitedError", "UnavailableError", "TimedOutError"}


NOW = 1_767_225_600.0  # 2026-01-01T00:00:00Z


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "9"}, 9.0),
        ({"retry-after-ms": "soon", "retry-after": "2"}, 2.0),
        ({"retry-after": "Thu, 01 Jan 2026 00:00:30 GMT"}, 30.0),
        ({"retry-after": "Wed, 31 Dec 2025 00:00:00 GMT"}, 0.0),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "inf"}, None),
        ({}, None),
    ],
)
def test_the_wait_that_headers_ask_for(headers, seconds):
    assert requested_wait_s(headers, NOW) == seconds


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
    assert mismatch({"reasoning": "r"}, VERDICT) == "$.category is missing"
    assert mismatch([], VERDICT) == "$ is array, not object"


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


def test_cost_counts_cached_tokens_at_their_own_price():
    endpoint = Endpoint("", "K", 1, 1, 0, 0, price_prompt=2.0, price_cached=0.5, price_completion=8.0, budget_usd=0)
    used = Usage(1, prompt=700_000, cached=200_000, completion=100_000, reasoning=60_000) + Usage(1, 300_000)
    assert used.requests == 2
    assert cost_usd(used, endpoint) == pytest.approx(0.8 * 2.0 + 0.2 * 0.5 + 0.1 * 8.0)


def test_token_estimates_round_up():
    assert [estimate_tokens(text) for text in ("", "a", "abcd", "abcde", "ééé")] == [0, 1, 1, 2, 2]
