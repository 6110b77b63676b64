"""Which process a pid means: its start time since boot, as psutil has it, and the boot tell it from all others.

Neither depends on the wall clock, which may be set while the process runs.
"""

from __future__ import annotations

import contextlib
import os
import signal
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil


@dataclass(frozen=True)
class ProcessIdentity:
    """One process.  `started` is in seconds since boot, `boot` the kernel's id of that boot ("" without /proc)."""

    pid: int
    started: float
    boot: str

    def is_alive(self) -> bool:
        """Whether this very process runs; a zombie, which only waits for its parent to read its status, does not."""
        return self._process() is not None

    def send_signal(self, number: signal.Signals) -> None:
        """Signal this very process; nothing happens when it has ended."""
        with contextlib.suppress(psutil.NoSuchProcess):
            if (process := self._process()) is not None:
                process.send_signal(number)

    def _process(self) -> psutil.Process | None:
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(self.pid)
            is_same = (self.started, self.boot) == (_started(process), boot_id())
            return process if is_same and process.status() != psutil.STATUS_ZOMBIE else None
        return None


def identify(pid: int) -> ProcessIdentity:
    """The process that has this pid now, also one that has ended and was not waited for.  Raises: NoSuchProcess."""
    return ProcessIdentity(pid, _started(psutil.Process(pid)), boot_id())


@cache
def boot_id() -> str:
    """The kernel's id of the present boot; "" where there is no /proc."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


@cache
def pid_namespace() -> str:
    """Which processes this one sees under which pids: a container has pids of its own.  "" where that is not known."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _started(process: psutil.Process) -> float:
    return float(process._ident[1] or 0)  # `create_time()` moves with each step of the clock
