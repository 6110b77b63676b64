"""JSON files that we wrote, read again: whoever touched them since, a fault is one clear line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tasks.shape import Shape, misfit


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
