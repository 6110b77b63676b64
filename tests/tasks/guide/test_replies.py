"""A reply is one JSON object of its type, or it is refused with a reason; nothing of it is mended."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.lib._pydantic import to_strict_json_schema

from tasks.common.validation import adapter
from tasks.guide.replies import (
    Critique,
    GuideProposal,
    UnusableReply,
    narrowed_proposal,
    parse_critique,
    parse_proposal,
)

GOOD = '{"summary": "s", "critique": "c"}'


@pytest.mark.parametrize(
    ("text", "finish", "said"),
    [
        (GOOD, "length", "max_new_tokens"),
        (GOOD, "stop_string", "stop string"),
        (GOOD[:-1], "stop", "JSON"),
        (f"```json\n{GOOD}\n```", "stop", "JSON"),
        (f"{GOOD}\n{GOOD}", "stop", "JSON"),
        (f"[{GOOD}]", "stop", "JSON"),
        ('{"summary": "s", "summary": "t", "critique": "c"}', "stop", "summary"),
        ('{"summary": "s", "critique": NaN}', "stop", "critique"),
        ('{"summary": "s"}', "stop", "critique"),
        ('{"summary": "s", "critique": "c", "verdict": "pass"}', "stop", "verdict"),
        ('{"summary": "s", "critique": "c", "candidate_ops": [{"op": "add"}]}', "stop", "candidate_ops"),
        ('{"summary": " ", "critique": "c"}', "stop", "empty"),
        ("[" * 100_000, "stop", "JSON"),
    ],
)
def test_almost_right_replies_are_rejected_with_their_reason(text: str, finish: str, said: str) -> None:
    with pytest.raises(UnusableReply, match=said) as error:
        parse_critique(text, finish, 100, 100)
    assert "\n" not in str(error.value)


@given(st.text() | st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists).map(json.dumps))
def test_what_is_no_reply_is_refused(text: str) -> None:
    with pytest.raises(UnusableReply):
        parse_proposal(text, "stop")


def test_an_endpoint_gets_a_schema_that_strict_mode_takes() -> None:
    for kind in (Critique, GuideProposal):
        schema = to_strict_json_schema(adapter(kind))
        written = json.dumps(schema)
        assert not any(f'"{name}"' in written for name in ("default", "maxLength", "maxItems"))
        assert list(schema["properties"]) == schema["required"] == [field.name for field in fields(kind)]


def test_fields_are_capped_and_what_is_left_out_is_none() -> None:
    reply = {"summary": "s" * 300, "critique": " c " * 300, "root_cause": "", "uncertainty_note": None}
    found = parse_critique(json.dumps(reply), "stop", 100, 200)
    assert (found.summary, len(found.critique), found.root_cause) == ("s" * 100, 199, None)


def fits(keys: list[str], **edit: Any) -> bool:
    whole = {
        "action": "refine", "summary": None, "critique": None, "evidence_group_ids": [], "uncertainty_note": None,
        "operations": [{"rationale": None, "evidence": ["第1组"], **edit}],
    }  # fmt: skip
    return jsonschema.Draft202012Validator(narrowed_proposal(keys, 2, 2)).is_valid(whole)


def test_the_narrowed_form_has_only_edits_that_can_be_applied() -> None:
    both, merge = ["G0", "G3"], {"op": "merge", "key": "G0", "text": "t"}
    assert fits(both, op="upsert", key=None, text="t") and fits(["G0"], op="upsert", key="G0", text="t")
    assert fits(both, op="remove", key="G3") and fits(both, **merge, merged_from=both)
    # With one experience there is nothing to remove or merge, and no other key or group can be named.
    assert not fits(["G0"], op="remove", key="G0") and not fits(["G0"], **merge, merged_from=["G0", "G0"])
    assert not fits(both, op="upsert", key="G1", text="t") and not fits(both, **merge, merged_from=["G0"])
    assert not fits(both, op="upsert", key=None, text="t", evidence=["第3组"])
