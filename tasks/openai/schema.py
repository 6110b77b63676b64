"""Strict JSON schemas: how we write them, and a check that a reply keeps what strict mode promises.

Only the part of JSON Schema that OpenAI's strict mode allows: objects whose every property is required and which
take no others, arrays, the scalar types, `enum`, `anyOf`, and a list of types for what may be null.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]


def strict_object(properties: Mapping[str, Schema]) -> dict[str, Any]:
    """An object with exactly these properties, in the order in which the model is to write them."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def mismatch(value: object, schema: Schema, path: str = "$") -> str | None:
    """The first place where `value` leaves `schema`, as one line; None where it fits."""
    if "anyOf" in schema:
        reasons = [mismatch(value, option, path) for option in schema["anyOf"]]
        return None if None in reasons else reasons[0]
    types = schema.get("type")
    allowed = [types] if isinstance(types, str) else list(types or [])
    if allowed and not any(_is_a(value, name) for name in allowed):
        return f"{path} is {_name(value)}, not {' or '.join(allowed)}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{path} is none of {schema['enum']}"
    if isinstance(value, dict):
        return _object_mismatch(value, schema, path)
    if isinstance(value, list) and "items" in schema:
        reasons = [mismatch(item, schema["items"], f"{path}[{i}]") for i, item in enumerate(value)]
        return next((reason for reason in reasons if reason), None)
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


def _object_mismatch(value: dict[str, object], schema: Schema, path: str) -> str | None:
    properties = schema.get("properties", {})
    for name in schema.get("required", []):
        if name not in value:
            return f"{path}.{name} is missing"
    for name, part in value.items():
        if name not in properties:
            if schema.get("additionalProperties") is False:
                return f"{path} has {name!r}, which is not in the schema"
            continue
        reason = mismatch(part, properties[name], f"{path}.{name}")
        if reason:
            return reason
    return None


def _is_a(value: object, name: str) -> bool:
    if name == "number":
        return isinstance(value, int | float) and not isinstance(value, bool) and _is_finite(value)
    if name == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    kinds = {"string": str, "boolean": bool, "object": dict, "array": list, "null": type(None)}
    return isinstance(value, kinds[name])


def _is_finite(value: int | float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond any float is still a number
        return True


def _name(value: object) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    names = {str: "string", bool: "boolean", dict: "object", list: "array", type(None): "null"}
    return names.get(type(value), "number")
