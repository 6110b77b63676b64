"""The processes that an owner has started, in a file, so that the next owner can end what a killed one left behind.

A process is identified as in tasks/common/child.py, so a pid that was given to another process meanwhile is never
signalled, and a step of the wall clock changes nothing.  Its own children are in its process group and have its token
in their environment.
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
from typing import Any

import psutil

from tasks.common.child import ProcessIdentity, identify
from tasks.common.files import write_atomic

TOKEN_VARIABLE = "WHETSTONE_PROCESS"
KILL_S = 3.0
POLL_S = 0.02


@dataclass(frozen=True)
class PidRecord(ProcessIdentity):
    """One process with a name, and the value of its WHETSTONE_PROCESS."""

    name: str
    token: str = ""

    @classmethod
    def of(cls, name: str, process: ProcessIdentity, token: str = "") -> PidRecord:
        return cls(process.pid, process.started, process.boot, name, token)

    def members(self) -> list[ProcessIdentity]:
        """The process and the other members of its group, as far as they still run."""
        is_alive = self.is_alive()
        others = [identify(pid) for pid in psutil.pids() if pid != self.pid and self._has_member(pid, is_alive)]
        return [process for process in (self, *others) if process is not None and process.is_alive()]

    def _has_member(self, pid: int, is_led: bool) -> bool:
        with contextlib.suppress(psutil.Error, OSError):
            return os.getpgid(pid) == self.pid and (
                is_led or psutil.Process(pid).environ().get(TOKEN_VARIABLE) == self.token
            )
        return False


class PidRecords:
    """The records of one owner, kept in one file; safe to use from several threads of that owner."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()

    def read(self) -> list[PidRecord]:
        """All records; none when there is no file."""
        return [PidRecord(**record) for record in read_own_file(self.path) or ()]

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


def read_own_file(path: Path) -> Any:
    """What a JSON file that this project wrote holds; None when there is no file."""
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        return None


def end_processes(processes: list[ProcessIdentity], grace_s: float) -> None:
    """SIGTERM to all, `grace_s` seconds for all together, then SIGKILL; returns when they have ended."""
    if grace_s > 0:
        _signal(processes, signal.SIGTERM)
        _wait_gone(processes, grace_s)
    _signal(processes, signal.SIGKILL)
    _wait_gone(processes, KILL_S)


def _wait_gone(processes: list[ProcessIdentity], limit_s: float) -> None:
    # Not by waitpid: it would take a child's exit status away from the process that started it, and an orphan is
    # waited for by its new parent alone.
    deadline = time.monotonic() + limit_s
    while any(process.is_alive() for process in processes) and time.monotonic() < deadline:
        time.sleep(POLL_S)


def _signal(processes: list[ProcessIdentity], number: signal.Signals) -> None:
    for process in processes:
        process.send_signal(number)
