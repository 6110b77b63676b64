"""JSON files that we wrote, read again: whoever touched them since, a fault is one clear line."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
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


class JsonFileError(Exception):
    """The file is not what we wrote; names it, the place and what is wrong, in one line."""


def read_json(path: Path, shape: Shape) -> Any:
    """What a JSON file holds.  Raises: FileNotFoundError; JsonFileError for everything else that is wrong with it."""
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        raise
    except (OSError, UnicodeDecodeError) as error:
        raise JsonFileError(f"{path} cannot be read: {error}") from None
    try:
        return parse_json(text, shape)
    except ValueError as error:
        raise JsonFileError(f"{path} cannot be read: {error}") from None


def parse_json(text: str | bytes, shape: Shape) -> Any:
    """Raises: ValueError, with what is wrong in one line."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    if reason := misfit(shape, value):
        raise ValueError(reason)
    return value


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
