"""How many tasks share the memory of a worker's card: as many as there are slots, until the memory has been full.

A task whose child finds no memory while others run is tried again.  It waits until another task has ended for good
(with a result, or with an error that is not tried again), or until no task runs.  A try that found no memory does not
count as such an end: what it gives back, the next one would fill again.

After such a try fewer tasks run at a time, also of those that come later: one fewer than ran.  Several that find no
memory before any task ends for good have seen the same full card, and lower the limit once.  The limit rises by one
when twice as many tasks as it allows have ended well since it changed.  When no task runs or waits, there is no limit.

Every task ends: it is tried again only after another one's end, or with the card to itself, and there a full memory is
an error.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from tasks.gpu.compute.process import CardMemoryFull

CHECK_S = 0.5

T = TypeVar("T")


@dataclass(eq=False)
class _Sharer:
    """A task that runs, or waits to run."""

    ends_seen: int = -1  # `CardMemory._ends` when its last try found no memory; it waits for a later end
    was_beside_another: bool = False  # at any time since its try began


class CardMemory:
    """May be used from several threads.  Tasks that wait begin in the order in which they came to wait."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running: list[_Sharer] = []
        self._waiting: list[_Sharer] = []
        self._ends = 0  # tasks that ran and ended for good, well or not
        self._limit = math.inf  # tasks that may run at a time
        self._lowered_at = -1  # `_ends` when the limit was last lowered
        self._ended_well = 0  # tasks since the limit changed

    def share(self, attempt: Callable[[], T], check: Callable[[], None], notify: Callable[[str], None]) -> T:
        """What `attempt` returns.  It is called again, as often as needed, when memory was full and others ran.

        `check` is called while this waits, and may raise; `notify` is told why it waits.
        Raises: CardMemoryFull of an attempt that was alone; whatever `attempt` and `check` raise.
        """
        this = _Sharer()
        try:
            with self._changed:
                self._waiting.append(this)
            while True:
                while not self._begins(this):
                    check()
                try:
                    result = attempt()
                except CardMemoryFull:
                    if not this.was_beside_another:
                        raise
                    notify(self._yield_memory(this))
                else:
                    self._count_good_end()
                    return result
        finally:
            self._leave(this)

    def _begins(self, this: _Sharer) -> bool:
        """Whether its turn comes within `CHECK_S` seconds; then it counts as running."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._may_begin(this), CHECK_S):
                return False
            self._waiting.remove(this)
            self._running.append(this)
            for each in self._running:
                each.was_beside_another |= len(self._running) > 1
            self._changed.notify_all()  # there may be room for the next one too
            return True

    def _may_begin(self, this: _Sharer) -> bool:
        has_room = len(self._running) < self._limit and this.ends_seen < self._ends
        return self._waiting[0] is this and (has_room or not self._running)

    def _yield_memory(self, this: _Sharer) -> str:
        """Let it wait behind the others, and lower the limit; returns why it waits."""
        with self._changed:
            if self._lowered_at < self._ends:
                self._limit = max(1, min(self._limit, len(self._running) - 1))
                self._lowered_at, self._ended_well = self._ends, 0
            self._running.remove(this)
            self._waiting.append(this)
            this.ends_seen, this.was_beside_another = self._ends, False
            self._changed.notify_all()  # when none runs any more, the first one begins
            limit = self._limit
        return (
            "the memory of the card was full: this job starts again when another one has ended, and for now at most "
            f"{limit} share the card; a lower --gpu-jobs or GPU_SLOTS avoids that"
        )

    def _count_good_end(self) -> None:
        with self._changed:
            self._ended_well += 1
            if self._ended_well >= 2 * self._limit:
                self._limit, self._ended_well = self._limit + 1, 0

    def _leave(self, this: _Sharer) -> None:
        with self._changed:
            if this in self._running:
                self._running.remove(this)
                self._ends += 1
            elif this in self._waiting:
                self._waiting.remove(this)
            if not self._running and not self._waiting:
                self._limit, self._ended_well = math.inf, 0
            self._changed.notify_all()
