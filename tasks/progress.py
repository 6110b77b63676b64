"""When this worker last made progress within a task, for the worker's health (`workers/celery_ext/stalled.py`).

A task that takes long calls `PROGRESS_CLOCK.note()` whenever a part of it is done: an answer of the target server, a
reply of the endpoint, a step of a clustering, a look at a server that loads its model.
"""

from __future__ import annotations

import mmap
import struct
import time

_FORMAT = "d"


class ProgressClock:
    """A time of the system's monotonic clock, shared with the processes that this one forks later."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, struct.calcsize(_FORMAT))
        self.note()

    def note(self) -> None:
        """Something was done now."""
        struct.pack_into(_FORMAT, self._memory, 0, time.monotonic())

    @property
    def at(self) -> float:
        found: float = struct.unpack_from(_FORMAT, self._memory, 0)[0]
        return found


PROGRESS_CLOCK = ProgressClock()  # of this worker and its pool
