"""How many tasks share the memory of a worker's card: as many as have slots, until the memory was full.

A task whose child finds no memory beside others has done nothing wrong.  It is tried again when another one has ended
for good, or when none runs.  A try that fails makes no room for others: they would fill the memory in its place.

From then on fewer share the card, also of those that come later, or the next one to come would fill the memory again.
Several that fail before any ends have seen the same full card, and count as one.  The limit rises by one when twice as
many as it allows have ended well: those that ran when it was set, and those that came after.  It is gone when the card
is free.

There is an end: a task begins again only after another one's end, or with the card to itself, and then it fails for
good.
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
    """A task that runs, or waits to.  It waits for an end beyond the first `ends`."""

    ends: int = -1
    shared: bool = False  # whether it was ever beside another since it began


class CardMemory:
    """May be used from several threads.  Who waits begins in the order of coming."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running: list[_Sharer] = []
        self._waiting: list[_Sharer] = []
        self._ends = 0  # for good, well or not
        self._most = math.inf  # that may run
        self._lowered_after = -1  # ends
        self._ended_well = 0  # since the limit has changed

    def share(self, attempt: Callable[[], T], check: Callable[[], None], notify: Callable[[str], None]) -> T:
        """What `attempt` returns.  It is called again, as often as needed, when it was not alone and memory was full.

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
                    if not this.shared:
                        raise
                    notify(self._yield_memory(this))
                else:
                    self._count_good_end()
                    return result
        finally:
            self._leave(this)

    def _begins(self, this: _Sharer) -> bool:
        """Whether its turn comes within `CHECK_S` seconds; then it runs."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._may_begin(this), CHECK_S):
                return False
            self._waiting.remove(this)
            self._running.append(this)
            for each in self._running:
                each.shared |= len(self._running) > 1
            self._changed.notify_all()  # there may be room for the next one too
            return True

    def _may_begin(self, this: _Sharer) -> bool:
        has_room = len(self._running) < self._most and this.ends < self._ends
        return self._waiting[0] is this and (has_room or not self._running)

    def _yield_memory(self, this: _Sharer) -> str:
        """Let it wait behind the others, and fewer run from now on; returns the reason."""
        with self._changed:
            if self._lowered_after < self._ends:
                self._most = max(1, min(self._most, len(self._running) - 1))
                self._lowered_after, self._ended_well = self._ends, 0
            self._running.remove(this)
            self._waiting.append(this)
            this.ends, this.shared = self._ends, False
            self._changed.notify_all()  # when none runs any more, the first one begins
            most = self._most
        return (
            "the memory of the card was full: this job starts again when another one has ended, and for now at most "
            f"{most} share the card; a lower --gpu-jobs or GPU_SLOTS avoids that"
        )

    def _count_good_end(self) -> None:
        with self._changed:
            self._ended_well += 1
            if self._ended_well >= 2 * self._most:
                self._most, self._ended_well = self._most + 1, 0

    def _leave(self, this: _Sharer) -> None:
        with self._changed:
            if this in self._running:
                self._running.remove(this)
                self._ends += 1
            elif this in self._waiting:
                self._waiting.remove(this)
            if not self._running and not self._waiting:
                self._most, self._ended_well = math.inf, 0
            self._changed.notify_all()
