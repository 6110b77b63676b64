"""Which processes an owner has started, in a file, so that whoever comes after a killed owner can clear them.

A process is known by its pid and the time at which it started, so that a pid given to somebody else meanwhile is
never signalled.  What such a process started lies in its process group and carries its token in the environment.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from tasks.files import write_atomic

TOKEN_VARIABLE = "WHETSTONE_PROCESS"
KILL_S = 3.0
POLL_S = 0.02
CLOCK_TOLERANCE_S = 1.5  # the start time is computed from the wall clock, which may be set


@dataclass(frozen=True)
class PidRecord:
    """One process; `started` in seconds of the epoch, `token` as in its environment's WHETSTONE_PROCESS."""

    name: str
    pid: int
    started: float
    token: str

    def leader(self) -> psutil.Process | None:
        """The recorded process itself, when it is still there."""
        started = start_time(self.pid)
        if started is None or abs(started - self.started) > CLOCK_TOLERANCE_S:
            return None
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(self.pid)
            return process if _lives(process) else None
        return None

    def members(self) -> list[psutil.Process]:
        """The process and what is left of its group, living only."""
        leader = self.leader()
        found = [leader] if leader else []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                is_other = process.pid != self.pid and os.getpgid(process.pid) == self.pid
                if is_other and (leader or process.environ().get(TOKEN_VARIABLE) == self.token):
                    found.append(process)
        return [process for process in found if _lives(process)]


class PidRecords:
    """The records of one owner, kept in one file; safe to use from several threads of that owner."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()

    def read(self) -> list[PidRecord]:
        """All records; none when there is no file. A file that is not ours to read raises ValueError or TypeError."""
        try:
            return [PidRecord(**entry) for entry in json.loads(self.path.read_text())]
        except FileNotFoundError:
            return []

    def add(self, record: PidRecord) -> None:
        with self._lock:
            self._write([*self.read(), record])

    def remove(self, record: PidRecord) -> None:
        with self._lock:
            self._write([other for other in self.read() if other != record])

    def clear(self, grace_s: float) -> list[str]:
        """End everything recorded that still lives, and forget it. Returns the names of what was left."""
        with self._lock:
            left = {record.name: record.members() for record in self.read()}
            end([process for members in left.values() for process in members], grace_s)
            self.path.unlink(missing_ok=True)
            return [name for name, members in left.items() if members]

    def _write(self, records: list[PidRecord]) -> None:
        write_atomic(self.path, json.dumps([asdict(record) for record in records], indent=1))


def end(processes: list[psutil.Process], grace_s: float) -> None:
    """SIGTERM to all, `grace_s` seconds for all together, SIGKILL for who is left; returns when they are gone."""
    if grace_s > 0:
        _signal(processes, signal.SIGTERM)
        _wait_gone(processes, grace_s)
    _signal(processes, signal.SIGKILL)
    _wait_gone(processes, KILL_S)


def _wait_gone(processes: list[psutil.Process], limit_s: float) -> None:
    # Not psutil's own wait: it would take a child's exit status away from whoever started it, and it waits for an
    # orphan until it is reaped, which is not ours to do.
    deadline = time.monotonic() + limit_s
    while any(_lives(process) for process in processes) and time.monotonic() < deadline:
        time.sleep(POLL_S)


def _signal(processes: list[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def start_time(pid: int) -> float | None:
    """When the process started, in seconds of the epoch; None when there is no such process."""
    try:
        return float(psutil.Process(pid).create_time())
    except psutil.NoSuchProcess:
        return None


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
