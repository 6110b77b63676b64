"""Values of a settings file with one changed, by its dotted name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def with_value(values: Mapping[str, Any], name: str, value: Any) -> dict[str, Any]:
    """The same values with another one at a dotted name."""
    key, _, rest = name.partition(".")
    return {**values, key: with_value(values[key], rest, value) if rest else value}


def without_key(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The same values without a key."""
    key, _, rest = name.partition(".")
    if rest:
        return {**values, key: without_key(values[key], rest)}
    return {other: value for other, value in values.items() if other != key}
