"""Replies of critic and reflector: their JSON schemas, and the one object that each is, or why it is rejected.

Nothing is mended.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tasks.common.validation import unrepeated
from tasks.guide.experiences import LONGEST
from tasks.openai.schema import Schema, mismatch, strict_object

_UNFINISHED = {
    "length": "it was cut at max_new_tokens",
    "stop_string": "it was cut by a stop string",
    "refusal": "the model refused",
    "content_filter": "the endpoint's content filter cut it",
}


@dataclass(frozen=True)
class Rejected:
    """Why a reply cannot be used."""

    reason: str


def read_object(text: str, finish: str, schema: Schema) -> Mapping[str, Any] | Rejected:
    """The object that a reply is.  A property of the schema that it does not require may be missing."""
    if finish != "stop":
        return Rejected(_UNFINISHED.get(finish, f"it ended by {finish!r:.40}"))
    try:
        data = json.loads(text, parse_constant=_refuse, object_pairs_hook=unrepeated)
    except (ValueError, RecursionError) as error:
        return Rejected(f"it is not one JSON object: {error}")
    if not isinstance(data, dict):
        return Rejected("it is not one JSON object")
    if reason := mismatch(data, without_bounds(schema)):
        return Rejected(f"it does not fit its schema: {reason}")
    return data


def edit_forms(
    keys: Sequence[str],
    before: Mapping[str, Any],
    after: Mapping[str, Any] | None = None,
    most_merged: int | None = None,
) -> list[dict[str, Any]]:
    """One schema for each operation that these experiences allow: with one experience nothing is removed or merged.

    `before` and `after` are properties before and after the text, in the order in which the model writes them.
    `most_merged`: a merge names its experiences, at most so many; without it there is none.
    """
    known = {"type": "string", "enum": [*keys]}
    known_or_new = {"type": ["string", "null"], "enum": [*keys, None]}
    text = {"text": {"type": "string", "minLength": 1, "maxLength": LONGEST}}

    def form(op: str, *properties: Mapping[str, Any]) -> dict[str, Any]:
        whole: dict[str, Any] = {"op": {"type": "string", "enum": [op]}}
        for some in (*properties, after or {}):
            whole |= some
        return strict_object(whole)

    forms = [form("upsert", {"key": known_or_new}, before, text)]
    if len(keys) > 1:
        forms.append(form("remove", {"key": known}, before))
    if len(keys) > 1 and most_merged is not None:
        merged = {"merged_from": {"type": "array", "items": known, "minItems": 2, "maxItems": most_merged}}
        forms.append(form("merge", merged, {"key": known_or_new}, before, text))
    return forms


def any_of(forms: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return forms[0] if len(forms) == 1 else {"anyOf": list(forms)}


def with_optional(schema: Schema, optional: frozenset[str]) -> dict[str, Any]:
    """The schema as a reply is read by it: these properties may be missing, at any depth."""
    found = {name: _optional(part, optional) for name, part in schema.items()}
    if "required" in found:
        found["required"] = [name for name in found["required"] if name not in optional]
    return found


def without_bounds(schema: Schema) -> dict[str, Any]:
    """The schema without lengths of strings and arrays, which the strict mode of endpoints does not have."""
    bounds = ("minLength", "maxLength", "minItems", "maxItems")
    return {
        name: without_bounds(part) if isinstance(part, Mapping) else part
        for name, part in schema.items()
        if name not in bounds
    }


def _optional(part: Any, optional: frozenset[str]) -> Any:
    return with_optional(part, optional) if isinstance(part, Mapping) else part


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")
