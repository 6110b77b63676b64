"""A reply is one JSON object of its schema, or it is rejected with a reason; nothing of it is mended."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.guide.critique import critic_schema, parse_critique
from tasks.guide.proposal import PROPOSAL_SCHEMA, parse_proposal
from tasks.guide.replies import Rejected, without_bounds

GOOD = '{"summary": "s", "critique": "c"}'


@pytest.mark.parametrize(
    ("text", "finish", "said"),
    [
        (GOOD, "length", "it was cut at max_new_tokens"),
        (GOOD, "stop_string", "it was cut by a stop string"),
        (GOOD, "tool_calls", "tool_calls"),
        ("", "stop", "not one JSON object"),
        (GOOD[:-1], "stop", "not one JSON object"),
        (f"```json\n{GOOD}\n```", "stop", "not one JSON object"),
        (f"Here it is: {GOOD}", "stop", "not one JSON object"),
        (f"{GOOD}\n{GOOD}", "stop", "not one JSON object"),
        (f"[{GOOD}]", "stop", "not one JSON object"),
        ('{"summary": "s", "summary": "t", "critique": "c"}', "stop", "occurs twice"),
        ('{"summary": "s", "critique": NaN}', "stop", "NaN"),
        ('{"summary": "s"}', "stop", "critique"),
        ('{"summary": "s", "critique": "c", "verdict": "pass"}', "stop", "verdict"),
        ('{"summary": "s", "critique": "c", "candidate_ops": [{"op": "add"}]}', "stop", "candidate_ops"),
        ('{"summary": " ", "critique": "c"}', "stop", "is empty"),
        ("[" * 100_000, "stop", "not one JSON object"),
    ],
)
def test_almost_right_replies_are_rejected_with_their_reason(text: str, finish: str, said: str) -> None:
    found = parse_critique(text, finish, 100, 100)
    assert isinstance(found, Rejected) and said in found.reason and "\n" not in found.reason


@given(st.text() | st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists).map(json.dumps))
def test_any_reply_is_read_or_rejected(text: str) -> None:
    assert isinstance(parse_proposal(text, "stop"), Rejected)
    assert isinstance(parse_critique(text, "stop", 10, 10), Rejected)


def test_an_endpoint_gets_a_schema_that_strict_mode_takes() -> None:
    for schema in (PROPOSAL_SCHEMA, critic_schema(100, 100)):
        bare = without_bounds(schema)
        assert "maxLength" not in json.dumps(bare) and "maxItems" not in json.dumps(bare)
        assert "maxLength" in json.dumps(schema)
