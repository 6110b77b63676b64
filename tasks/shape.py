"""Whether a value that was read from JSON has the shape that it should have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Any

from tasks.message import shown

Shape = type | tuple[type, ...] | list[Any] | Mapping[str, Any]
"""A type or several; a list of one shape, for lists of any length; or the shapes of an object's members."""

NUMBER = (int, float)
PERHAPS_NUMBER = (int, float, NoneType)
NAMES: Mapping[type, str] = {
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    list: "a list",
    dict: "an object",
    NoneType: "null",
}


def misfit(shape: Shape, value: Any, place: str = "it") -> str | None:
    """The first place where a value has another shape; None where it has this one."""
    if isinstance(shape, Mapping):
        if not isinstance(value, dict):
            return f"{place} is {shown(value)}, not an object"
        missing = [f"{place} has no {name}" for name in shape if name not in value]
        wrong = (misfit(part, value[name], f"{place}.{name}") for name, part in shape.items() if name in value)
        return next((reason for reason in (*missing, *wrong) if reason), None)
    if isinstance(shape, list):
        if not isinstance(value, list):
            return f"{place} is {shown(value)}, not a list"
        reasons = (misfit(shape[0], item, f"{place}[{number}]") for number, item in enumerate(value))
        return next((reason for reason in reasons if reason), None)
    kinds: Sequence[type] = shape if isinstance(shape, tuple) else (shape,)
    if not isinstance(value, tuple(kinds)) or (isinstance(value, bool) and bool not in kinds):
        return f"{place} is {shown(value)}, not {' or '.join(dict.fromkeys(NAMES[kind] for kind in kinds))}"
    return None
