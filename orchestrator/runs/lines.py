"""Files that grow by lines of JSON, each synced to disk: whatever a kill or a power cut left, whole lines are read."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from orchestrator.runs.folder import OutputError, writing
from tasks.common.validation import InvalidData, checked_json


def load_lines(
    path: Path, kind: Any, name: str, *, repair: bool = False, is_whole: bool = False
) -> list[dict[str, Any]]:
    """The lines of a file, none where there is no file; `kind` is their type, `name` says what a line is.

    A last line that was cut short is dropped; with `repair` from the file as well, so that it can be added to.
    """
    try:
        raw = path.read_bytes() if path.exists() else b""
    except OSError as error:
        raise OutputError(f"{path} cannot be read: {error}") from None
    whole, _, torn = raw.rpartition(b"\n")
    lines = whole.split(b"\n") if whole else []
    found = list[dict[str, Any]]()
    for number, line in enumerate(lines, start=1):
        try:
            found.append(checked_json(kind, line))
        except InvalidData as error:
            if number < len(lines) or not repair:
                raise OutputError(f"{path}: line {number} is no {name}: {error}; correct it or remove it") from None
            torn = line  # a power cut may leave a line of zeros with its end
    if torn and is_whole:
        raise OutputError(f"{path}: the last line is no {name}; correct it or remove it")
    if torn and repair:
        with path.open("r+b") as file:
            file.truncate(sum(len(line) + 1 for line in lines[: len(found)]))
            os.fsync(file.fileno())
    return found


def append_lines(path: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    """Add lines; when this returns, a power cut does not take them away."""
    with writing(path), path.open("ab") as file:
        for line in lines:
            file.write(json_line(line))
        file.flush()
        os.fsync(file.fileno())


def json_line(value: Mapping[str, Any]) -> bytes:
    """A value as one line of JSON in UTF-8, where half of a pair of UTF-16 is a question mark."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace") + b"\n"
