"""The verdicts of a model on the rows of a file, kept as they come, since they are paid and the command may be stopped.

`FILE.partial` is an SQLite database beside the file of `orchestrator judge --output FILE`.  The key of a verdict covers
the row, the judge and its address, so it is never taken for that of another judge.
"""

from __future__ import annotations

import dataclasses
import json
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestrator.output import OutputError
from tasks.envelope import parse_sealed, sealed
from tasks.models import Verdict
from tasks.validation import InvalidData

COMMIT_EVERY_S = 0.5  # what a kill may cost; each commit is synced to disk


def partial_path(output: Path) -> Path:
    return output.with_name(f"{output.name}.partial")


class KeptVerdicts:
    """Safe to use from several threads.  Without a path it is temporary; millions of verdicts take no memory.

    Raises: OutputError for a file that cannot be used, also in each method.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path, self._lock = path, threading.Lock()
        self._committed = time.monotonic()
        with self._naming_the_file():
            self._database = sqlite3.connect(path or "", check_same_thread=False)
            self._database.execute(
                "CREATE TABLE IF NOT EXISTS verdicts (key TEXT PRIMARY KEY, verdict TEXT) WITHOUT ROWID"
            )

    def __len__(self) -> int:
        with self._naming_the_file(), self._lock:
            [count] = self._database.execute("SELECT COUNT(*) FROM verdicts").fetchone()
            return int(count)

    def get(self, key: str) -> Verdict | None:
        with self._naming_the_file():
            with self._lock:
                found = self._database.execute("SELECT verdict FROM verdicts WHERE key = ?", (key,)).fetchone()
            return parse_sealed(Verdict, found[0]) if found else None

    def put(self, key: str, verdict: Verdict) -> None:
        line = json.dumps(sealed(dataclasses.asdict(verdict)))
        with self._naming_the_file(), self._lock:
            self._database.execute("INSERT OR REPLACE INTO verdicts VALUES (?, ?)", (key, line))
            if time.monotonic() - self._committed > COMMIT_EVERY_S:
                self._database.commit()
                self._committed = time.monotonic()

    def close(self) -> None:
        with self._naming_the_file(), self._lock:
            self._database.commit()
            self._database.close()

    @contextmanager
    def _naming_the_file(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, InvalidData) as error:
            where = self._path or "the temporary file of the verdicts"
            remedy = "; remove it to have all rows judged anew" if self._path else ""
            raise OutputError(f"{where} cannot be used: {error}{remedy}") from None
