"""Files that grow by lines of JSON, each synced to disk: whatever a kill or a power cut left, whole lines are read."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NotRequired

from typing_extensions import TypedDict

from orchestrator.runs.folder import OutputError, writing
from tasks.common.validation import InvalidData, checked_json
from tasks.store.store import Store


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


JOURNAL = "journal.jsonl"


class JournalLine(TypedDict):
    """A key with its result; or how many replies there were when a mission parked, as too many were of no use."""

    key: NotRequired[str]
    result: NotRequired[dict[str, Any]]
    parked_at: NotRequired[int]


class Journal:
    """Every result that a run, or a part of one, was given, so that it outlives its store.

    What it holds is put into the store before the first job is sent; nothing that was answered is asked again.
    `results` are by content key; `parked_at` has the parks, oldest first.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._new: list[JournalLine] = []
        self.results: dict[str, dict[str, Any]] = {}
        self.parked_at: list[int] = []
        for line in load_lines(path, JournalLine, "result", repair=True):
            if "parked_at" in line:
                self.parked_at.append(line["parked_at"])
            elif "key" in line and "result" in line:
                self.results.setdefault(line["key"], line["result"])

    def add(self, key: str, result: Mapping[str, Any]) -> None:
        """Note a result; `flush` writes it."""
        if key not in self.results:
            self.results[key] = dict(result)
            self._new.append({"key": key, "result": self.results[key]})

    def add_park(self, replies: int) -> None:
        """Note that it parks after so many replies; written at once."""
        self.parked_at.append(replies)
        self._new.append({"parked_at": replies})
        self.flush()

    def flush(self) -> None:
        """When this returns, a power cut takes nothing of what was added away."""
        if self._new:
            append_lines(self._path, self._new)
            self._new = []

    def seed(self, store: Store, run_id: str) -> None:
        """Put all results into the store, as far as they are not there."""
        for key, result in self.results.items():
            store.put_shared(run_id, key, result)
