"""Replies of critic and reflector: one JSON object of its schema, or rejected.  Nothing is mended."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tasks.openai.schema import Schema, mismatch

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
        data = json.loads(text, parse_constant=_refuse, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        return Rejected(f"it is not one JSON object: {error}")
    if not isinstance(data, dict):
        return Rejected("it is not one JSON object")
    if reason := mismatch(data, schema):
        return Rejected(f"it does not fit its schema: {reason}")
    return data


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


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object has a name twice")
    return found
