"""Which process a pid means: the kernel's start time in ticks since boot, and the boot, tell it from all others.

Neither depends on the wall clock, which may be set while the process runs.  A pid alone is given to another process
later; a start time in seconds of the epoch moves with each step of the clock.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ENDED = ("Z", "X")  # a zombie only waits for its parent to read its exit status
_STATE, _STARTED = 0, 19  # of /proc/PID/stat, counted from the field after the name (proc(5): fields 3 and 22)


@dataclass(frozen=True)
class ProcessIdentity:
    """One process.  `started` is in clock ticks since boot, `boot` the kernel's id of that boot ("" without /proc)."""

    pid: int
    started: int
    boot: str

    def is_alive(self) -> bool:
        """Whether this very process runs.  A process of another boot does not."""
        found = _stat(self.pid) if self.boot == boot_id() else None
        return found is not None and found[1] == self.started and found[0] not in ENDED

    def send_signal(self, number: signal.Signals) -> None:
        """Signal this very process; nothing happens when it has ended.  Raises: PermissionError."""
        with contextlib.suppress(ProcessLookupError):
            if not hasattr(os, "pidfd_open"):
                if self.is_alive():
                    os.kill(self.pid, number)
                return
            # The descriptor holds on to one process: a process that gets the pid after the check is not signalled.
            descriptor = os.pidfd_open(self.pid)
            try:
                if self.is_alive():
                    signal.pidfd_send_signal(descriptor, number)
            finally:
                os.close(descriptor)


def identify(pid: int) -> ProcessIdentity | None:
    """The process that has this pid now, also one that has ended and was not waited for; None when there is none."""
    found = _stat(pid)
    return None if found is None else ProcessIdentity(pid, found[1], boot_id())


def this_process() -> ProcessIdentity:
    """The process that calls this."""
    found = identify(os.getpid())
    assert found is not None, "a process that runs has a pid"
    return found


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


def _stat(pid: int) -> tuple[str, int] | None:
    """State and start time of a process; None when there is none."""
    if sys.platform != "linux":
        return _stat_elsewhere(pid)
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rpartition(")")[2].split()  # a name may hold spaces and brackets
    return fields[_STATE], int(fields[_STARTED])


def _stat_elsewhere(pid: int) -> tuple[str, int] | None:
    """As `_stat`, where there is no /proc; macOS records the start in seconds of the epoch, which later steps spare."""
    import psutil

    try:
        process = psutil.Process(pid)
        ended = process.status() == psutil.STATUS_ZOMBIE
        return "Z" if ended else "S", round(process.create_time() * 100)
    except psutil.NoSuchProcess:
        return None
