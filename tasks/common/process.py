"""Which process a pid means, and children that end with their parent and whatever they have started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil

_DIE_WITH_PARENT = str(Path(__file__).with_name("die_with_parent.py"))


def dying_with_parent(command: Sequence[str], number: signal.Signals) -> list[str]:
    """The command, in a form that the kernel signals when the thread that has started it ends (Linux)."""
    return [sys.executable, "-I", "-S", _DIE_WITH_PARENT, str(os.getpid()), str(int(number)), *command]


def has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether a child has ended; it keeps its pid, and so the name of its group, until `stop_child`."""
    if process.returncode is not None:
        return True
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def wait_ended(process: subprocess.Popen[bytes], limit_s: float) -> bool:
    """Whether it ends within so many seconds."""
    deadline = time.monotonic() + limit_s
    while not (ended := has_ended(process)) and time.monotonic() < deadline:
        time.sleep(0.02)  # waitid has no limit of time
    return ended


def stop_child(process: subprocess.Popen[bytes], grace_s: float) -> int:
    """End a child, after SIGTERM and `grace_s` seconds, and all that it left in its group; returns its exit code."""
    if grace_s and not has_ended(process):
        process.terminate()
        wait_ended(process, grace_s)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    return process.wait()


@dataclass(frozen=True)
class ProcessIdentity:
    """One process, told from all others with its pid: neither depends on the wall clock, which may be set.

    `started` is in seconds since boot, as psutil has it, `boot` the kernel's id of that boot ("" without /proc).
    """

    pid: int
    started: float
    boot: str

    def is_alive(self) -> bool:
        """Whether this very process runs; a zombie, which only waits for its parent to read its status, does not."""
        return self._process() is not None

    def send_signal(self, number: signal.Signals) -> None:
        """Signal this very process; nothing happens when it has ended."""
        with suppress(psutil.NoSuchProcess):
            if (process := self._process()) is not None:
                process.send_signal(number)

    def _process(self) -> psutil.Process | None:
        with suppress(psutil.NoSuchProcess):
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
