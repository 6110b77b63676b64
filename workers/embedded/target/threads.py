"""How many threads a piece of work takes: all of them while the cores are free, one while others want them.

A step is two hundred short parallel loops, and each ends when its last thread does.  When another process holds a
core, every loop waits for a thread that is not running: two threads on two cores were then up to sixty times slower
than one.  With the cores to ourselves they are a third faster.
"""

from __future__ import annotations

import os
from pathlib import Path

import torch

RUNNING = Path("/proc/loadavg")  # "... <running>/<all> ...": threads that run or want to, in the whole machine


class ThreadTuner:
    """Sets torch's threads before each piece of work. To be used by the engine's thread alone."""

    def __init__(self, adaptive: bool, running: Path = RUNNING, cores: int | None = None) -> None:
        self._all = torch.get_num_threads()
        self._running = running
        self._count = cores or os.cpu_count() or 1
        self._adaptive = adaptive and self._all > 1
        if not adaptive:
            torch.set_num_threads(1)

    def choose(self) -> None:
        """Take all threads if the machine has room for them at this moment, else one."""
        if not self._adaptive:
            return
        current = torch.get_num_threads()
        wanted = self._all if self._others(current) + self._all <= self._count else 1
        if wanted != current:
            torch.set_num_threads(wanted)

    def _others(self, ours: int) -> int:
        """Threads of others that run just now. Ours spin a while after a loop, so as many as we use may be ours."""
        try:
            running = int(self._running.read_text().split()[3].split("/")[0])
        except (OSError, ValueError, IndexError):
            return 0  # not on Linux: hope for the best, as torch does
        return max(0, running - ours)


def thread_counts() -> tuple[int, ...]:
    """The numbers of threads between which `choose` may change."""
    return tuple(sorted({1, torch.get_num_threads()}))
