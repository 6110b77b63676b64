"""The processes that an owner has started, in a file, so that the next owner can end what a killed one left behind.

A process is identified by its pid and its start time, so a pid that was given to another process meanwhile is never
signalled.  Its own children are in its process group and have its token in their environment.
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
from tasks.validation import parse_json

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
        """The recorded process itself, when it still runs."""
        started = start_time(self.pid)
        if started is None or abs(started - self.started) > CLOCK_TOLERANCE_S:
            return None
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(self.pid)
            return process if _lives(process) else None
        return None

    def members(self) -> list[psutil.Process]:
        """The process and the other members of its group, as far as they still run."""
        leader = self.leader()
        members = [leader] if leader else []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                is_other = process.pid != self.pid and os.getpgid(process.pid) == self.pid
                if is_other and (leader or process.environ().get(TOKEN_VARIABLE) == self.token):
                    members.append(process)
        return [process for process in members if _lives(process)]


class PidRecords:
    """The records of one owner, kept in one file; safe to use from several threads of that owner."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()

    def read(self) -> list[PidRecord]:
        """All records; none when there is no file. Raises: InvalidData."""
        try:
            return parse_json(list[PidRecord], self.path.read_text())
        except FileNotFoundError:
            return []

    def add(self, record: PidRecord) -> None:
        with self._lock:
            self._write([*self.read(), record])

    def remove(self, record: PidRecord) -> None:
        with self._lock:
            self._write([other for other in self.read() if other != record])

    def clear(self, grace_s: float) -> list[str]:
        """End all recorded processes that still run, and remove the file. Returns their names."""
        with self._lock:
            running = {record.name: record.members() for record in self.read()}
            end_processes([process for members in running.values() for process in members], grace_s)
            self.path.unlink(missing_ok=True)
            return [name for name, members in running.items() if members]

    def _write(self, records: list[PidRecord]) -> None:
        write_atomic(self.path, json.dumps([asdict(record) for record in records], indent=1))


def end_processes(processes: list[psutil.Process], grace_s: float) -> None:
    """SIGTERM to all, `grace_s` seconds for all together, then SIGKILL; returns when they have ended."""
    if grace_s > 0:
        _signal(processes, signal.SIGTERM)
        _wait_gone(processes, grace_s)
    _signal(processes, signal.SIGKILL)
    _wait_gone(processes, KILL_S)


def _wait_gone(processes: list[psutil.Process], limit_s: float) -> None:
    # Not psutil's own wait: it would take a child's exit status away from the process that started it, and it waits
    # until an orphan is reaped, which only its new parent can do.
    deadline = time.monotonic() + limit_s
    while any(_lives(process) for process in processes) and time.monotonic() < deadline:
        time.sleep(POLL_S)


def _signal(processes: list[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def start_time(pid: int) -> float | None:
    """When a process started, in seconds of the epoch; None when there is no such process."""
    try:
        return float(psutil.Process(pid).create_time())
    except psutil.NoSuchProcess:
        return None


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
