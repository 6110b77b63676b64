"""Strict JSON schemas: how we write them, and a check that a reply keeps what strict mode promises.

Only the part of JSON Schema that OpenAI's strict mode allows: objects whose every property is required and which
take no others, arrays, the scalar types, `enum`, `anyOf`, and a list of types for what may be null.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal, NotRequired, Union

from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from tasks.validation import first_error

Schema = Mapping[str, Any]
SCALARS: Mapping[str, Any] = {"string": str, "number": float, "integer": int, "boolean": bool, "null": None}


def strict_object(properties: Mapping[str, Schema]) -> dict[str, Any]:
    """An object with exactly these properties, in the order in which the model is to write them."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def mismatch(value: object, schema: Schema) -> str | None:
    """The first place where `value` leaves `schema`, as one line; None where it fits."""
    try:
        _adapter(json.dumps(schema)).validate_python(value)
    except ValidationError as error:
        return first_error(error, "$")
    return None


def not_strict(schema: object, path: str = "$") -> str | None:
    """Why OpenAI would refuse `schema` with `strict: true`; None where it would take it."""
    if not isinstance(schema, Mapping):
        return f"{path} is not a schema"
    if path == "$" and schema.get("type") != "object":
        return "the root is not an object"
    parts = {f"{path}[]": schema["items"]} if "items" in schema else {}
    if schema.get("type") == "object":
        properties = schema.get("properties", {})
        if schema.get("additionalProperties") is not False:
            return f"{path} needs additionalProperties: false"
        if sorted(schema.get("required", [])) != sorted(properties):
            return f"{path} does not require every property"
        parts = {f"{path}.{name}": part for name, part in properties.items()}
    reasons = [not_strict(part, where) for where, part in parts.items()]
    return next((reason for reason in reasons if reason), None)


@lru_cache(maxsize=64)  # an endpoint gets schemas from outside
def _adapter(schema: str) -> TypeAdapter[Any]:
    return TypeAdapter(_type_of(json.loads(schema)))


def _type_of(schema: Schema) -> Any:
    """The type that has the values which a schema describes."""
    if "anyOf" in schema:
        return Union[tuple(map(_type_of, schema["anyOf"]))]  # noqa: UP007  # of a number that is known at run time
    if "enum" in schema:
        return Literal[tuple(schema["enum"])]
    kind = schema.get("type")
    if isinstance(kind, list):
        return Union[tuple(_type_of({**schema, "type": one}) for one in kind)]  # noqa: UP007
    if kind == "object":
        return _object_type(schema)
    return list[_type_of(schema["items"])] if kind == "array" else SCALARS[kind]  # type: ignore[misc, index]  # a type made at run time


def _object_type(schema: Schema) -> Any:
    required = schema.get("required", [])
    hints = {name: _type_of(part) for name, part in schema.get("properties", {}).items()}
    found: Any = TypedDict("found", {n: h if n in required else NotRequired[h] for n, h in hints.items()})  # type: ignore[misc]
    extra: Literal["forbid", "ignore"] = "forbid" if schema.get("additionalProperties") is False else "ignore"
    return with_config(ConfigDict(strict=True, allow_inf_nan=False, extra=extra))(found)
