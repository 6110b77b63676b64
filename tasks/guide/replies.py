"""What critic and reflector reply: one JSON object of its type, or it is refused with a reason.  Nothing is mended.

An endpoint is asked in the form of `Critique` or `GuideProposal`, the target under a narrower grammar.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NotRequired, TypeVar

from pydantic import ConfigDict
from typing_extensions import TypedDict

from tasks.common.validation import parse_json, unrepeated
from tasks.guide.experiences import LONGEST, Operation

T = TypeVar("T")
STRICT = ConfigDict(extra="forbid")
MOST_ISSUES, MOST_OPERATIONS = 4, 3  # of a critique
MOST_LISTED = 12  # tickets or experiences of one list, where the target writes under a grammar
SHORT_NOTE: Mapping[str, Any] = {"type": ["string", "null"], "maxLength": 200}
UNFINISHED = {
    "length": "it was cut at max_new_tokens",
    "stop_string": "it was cut by a stop string",
    "refusal": "the model refused",
    "content_filter": "the endpoint's content filter cut it",
    "only_tool_calls": "it has tool calls and no text",
}


class SuggestedEdit(TypedDict):
    """An edit of the experiences that a critic suggests."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    op: Literal["upsert", "remove", "merge"]
    key: NotRequired[str | None]
    rationale: NotRequired[str | None]
    text: NotRequired[str | None]


@dataclass(frozen=True)
class Critique:
    """What the critic said."""

    __pydantic_config__ = STRICT
    summary: str
    critique: str
    root_cause: str | None = None
    issues: tuple[str, ...] | None = None
    candidate_ops: tuple[SuggestedEdit, ...] | None = None
    uncertainty_note: str | None = None


@dataclass(frozen=True, kw_only=True)
class GuideProposal:
    """What the reflector wants.  Its operations have not been checked (`tasks.guide.experiences`)."""

    __pydantic_config__ = STRICT
    action: Literal["refine", "noop"]
    summary: str | None = None
    critique: str | None = None
    operations: tuple[Operation, ...]
    evidence_group_ids: tuple[str, ...]
    uncertainty_note: str | None = None


class UnusableReply(ValueError):
    """Why a reply cannot be used."""


def group_name(number: int) -> str:
    """How a prompt, and so a reply, calls the tickets of a bundle, from 1."""
    return f"第{number}组"


def parse_critique(text: str, finish: str, summary_max_chars: int, critique_max_chars: int) -> Critique:
    """The critique that a reply is.  Fields that are longer than their caps are cut; an empty one is none."""

    def capped(value: str | None, most: int = summary_max_chars) -> str:
        return (value or "").strip()[:most].strip()

    found = _read(Critique, text, finish)
    summary, critique = capped(found.summary), capped(found.critique, critique_max_chars)
    if not summary or not critique:
        raise UnusableReply("its summary or its critique is empty")
    return Critique(
        summary,
        critique,
        root_cause=capped(found.root_cause) or None,
        issues=tuple(filter(None, map(capped, (found.issues or ())[:MOST_ISSUES]))) or None,
        candidate_ops=(found.candidate_ops or ())[:MOST_OPERATIONS] or None,
        uncertainty_note=capped(found.uncertainty_note) or None,
    )


def parse_proposal(text: str, finish: str) -> GuideProposal:
    found = _read(GuideProposal, text, finish)
    return dataclasses.replace(found, uncertainty_note=(found.uncertainty_note or "").strip() or None)


def _read(kind: type[T], text: str, finish: str) -> T:
    if finish != "stop":
        raise UnusableReply(UNFINISHED.get(finish, f"it ended by {finish!r:.300}"))
    try:
        value = json.loads(text, object_pairs_hook=unrepeated)
    except (ValueError, RecursionError) as error:
        raise UnusableReply(f"it is not one JSON object: {error}") from None
    if not isinstance(value, dict):
        raise UnusableReply("it is not one JSON object")
    try:
        return parse_json(kind, text)
    except ValueError as error:
        raise UnusableReply(f"it does not fit its schema: {error}") from None


# The forms of replies for a grammar of the target.  A small model ends no text without a bound, and proposes edits that
# cannot be applied unless its grammar has none.


def narrowed_critique(keys: Sequence[str], summary_max_chars: int, critique_max_chars: int) -> dict[str, Any]:
    """The form of a critique; a suggested edit is one that can be applied to the experiences `keys`."""
    text = {"type": "string", "maxLength": summary_max_chars}
    short = {"type": ["string", "null"], "maxLength": summary_max_chars}
    return _strict_object(
        summary=text,
        critique={"type": "string", "maxLength": critique_max_chars},
        root_cause=short,
        issues={"type": ["array", "null"], "items": text, "maxItems": MOST_ISSUES},
        candidate_ops={"type": ["array", "null"], "items": _edits(keys, short), "maxItems": MOST_OPERATIONS},
        uncertainty_note=short,
    )


def narrowed_proposal(keys: Sequence[str], tickets: int, max_operations: int) -> dict[str, Any]:
    """The form of a proposal on so many tickets.

    No other key and no other group can be named, and no more edits than are looked at: a small model repeats them until
    its reply is cut.  What a model writes first it can build on: the summary stands before the edits, and an edit's
    rationale before its text.
    """
    named = {"type": "string", "enum": [group_name(number + 1) for number in range(tickets)]}
    groups = {"type": "array", "items": named, "maxItems": MOST_LISTED}
    edit = _edits(keys, SHORT_NOTE, evidence={**groups, "minItems": 1})
    return _strict_object(
        action={"type": "string", "enum": ["refine", "noop"]},
        summary=SHORT_NOTE,
        operations={"type": "array", "items": edit, "maxItems": max_operations},
        critique=SHORT_NOTE,
        evidence_group_ids=groups,
        uncertainty_note=SHORT_NOTE,
    )


def _edits(keys: Sequence[str], rationale: Mapping[str, Any], **evidence: Any) -> dict[str, Any]:
    """An edit that these experiences allow: with one experience nothing can be removed or merged.

    Without `evidence` there is no merge: a critic's suggestion does not say what it merges.
    """
    known = {"type": "string", "enum": [*keys]}
    new = {"type": ["string", "null"], "enum": [*keys, None]}
    text = {"text": {"type": "string", "minLength": 1, "maxLength": LONGEST}}

    def form(op: str, **properties: Any) -> dict[str, Any]:
        return _strict_object(op={"type": "string", "enum": [op]}, **properties, **evidence)

    forms = [form("upsert", key=new, rationale=rationale, **text)]
    if len(keys) > 1:
        forms.append(form("remove", key=known, rationale=rationale))
    if len(keys) > 1 and evidence:
        merged = {"type": "array", "items": known, "minItems": 2, "maxItems": MOST_LISTED}
        forms.append(form("merge", merged_from=merged, key=new, rationale=rationale, **text))
    return forms[0] if len(forms) == 1 else {"anyOf": forms}


def _strict_object(**properties: Any) -> dict[str, Any]:
    """An object with exactly these properties, which a model writes in their order."""
    names = list(properties)
    return {"type": "object", "properties": properties, "required": names, "additionalProperties": False}
