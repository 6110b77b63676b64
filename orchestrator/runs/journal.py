"""`journal.jsonl` of a run, or of a part of one: every result that it was given, so that it outlives its store.

A line is a content key with its result, or a note that the run has parked.  What the journal holds is put into the
store before the first job is sent; nothing that was answered is asked again.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NotRequired

from typing_extensions import TypedDict

from orchestrator.runs.lines import append_lines, load_lines
from tasks.store.store import Store

JOURNAL = "journal.jsonl"


class JournalLine(TypedDict):
    """`parked_at` counts the replies when a mission parked because too many could not be used."""

    key: NotRequired[str]
    result: NotRequired[dict[str, Any]]
    parked_at: NotRequired[int]


class Journal:
    """`results` are by content key; `parked_at` has the parks, oldest first."""

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
