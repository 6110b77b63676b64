"""A reply is one JSON object of its type, or it is refused with a reason; nothing of it is mended."""

from __future__ import annotations

import json
from dataclasses import fields

import pytest
from openai.lib._pydantic import to_strict_json_schema

from tasks.common.validation import adapter
from tasks.guide.replies import (
    Critique,
    GuideProposal,
    UnusableReply,
    parse_critique,
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


def test_an_endpoint_gets_a_schema_that_strict_mode_takes() -> None:
    for kind in (Critique, GuideProposal):
        schema = to_strict_json_schema(adapter(kind))
        written = json.dumps(schema)
        assert not any(f'"{name}"' in written for name in ("default", "maxLength", "maxItems"))
        assert list(schema["properties"]) == schema["required"] == [field.name for field in fields(kind)]
