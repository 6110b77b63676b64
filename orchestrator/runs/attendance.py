"""Whether anybody takes a run's work: a run that waits for workers that are not there, or refuse, says so."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from tasks.roster import Roster

EVERY_S = 5.0
LOOKS = 3  # in a row that must find nobody: an embedded worker that died is back sooner


class Attendance:
    """Looks every few seconds, and says each finding once."""

    def __init__(self, roster: Roster, queues: Callable[[], Mapping[str, int]], say: Callable[[str], None]) -> None:
        self._roster, self._queues, self._say = roster, queues, say
        self._looked = time.monotonic()
        self._missed: dict[str, int] = {}
        self._said: dict[str, str] = {}

    def look(self) -> None:
        """Raises: redis.RedisError."""
        if time.monotonic() - self._looked < EVERY_S:
            return
        self._looked = time.monotonic()
        reports = self._roster.workers()
        for queue, waiting in self._queues().items():
            self._note(queue, nobody(queue, waiting, reports))

    def _note(self, queue: str, line: str) -> None:
        self._missed[queue] = self._missed.get(queue, 0) + 1 if line else 0
        if line and self._missed[queue] < LOOKS:
            return
        if line and self._said.get(queue) != line:
            self._say(line)
        self._said[queue] = line


def nobody(queue: str, waiting: int, reports: list[dict[str, Any]]) -> str:
    """A line when something waits in a queue and no worker takes it; else ""."""
    here = [report for report in reports if report["queue"] == queue]
    if not waiting or any(report.get("state", "ready") == "ready" for report in here):
        return ""
    reasons = sorted({f"{report['worker']}: {report.get('why')}" for report in here})
    why = "; ".join(reasons) or f"no worker is there: start one with `python -m workers {queue}`"
    return f"nobody takes the work on {queue}: {why}"
