"""Strict JSON schemas: how we write them, and a check that a reply keeps what strict mode promises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.common.text import escape_control, shorten

Schema = Mapping[str, Any]
LONGEST_REASON = 300  # characters


def strict_object(properties: Mapping[str, Schema]) -> dict[str, Any]:
    """An object with exactly these properties, in the order in which the model is to write them."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def mismatch(value: object, schema: Schema) -> str | None:
    """A place where `value` leaves `schema`, as one line; None where it fits."""
    import jsonschema  # it takes long to import, and not every process reads replies

    error = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(schema).iter_errors(value))
    return None if error is None else shorten(escape_control(f"{error.json_path}: {error.message}"), LONGEST_REASON)
