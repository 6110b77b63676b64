"""What a worker's card does now: it serves or it computes, never both.

Tasks that do the same share the card.  A task that computes waits until nobody is served any more, and from then on
nobody new is served: training goes first.  Who wants to be served meanwhile is refused at once, and its message goes
to another worker or waits in the queue.  A task that computes alone waits for the others, and new ones wait for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tasks.gpu.host import CardComputes, CardUse

CHECK_S = 0.5


class Card:
    """May be used from several threads.  A thread that is being served may enter `serving` again."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._serving = 0
        self._computing = 0  # tasks that compute, or wait to
        self._running = 0  # those of them that have begun
        self._alone = 0  # those of them that compute alone, or wait to
        self._own = threading.local()

    @property
    def use(self) -> CardUse:
        """`computes` also while a task only waits to compute."""
        with self._changed:
            return "computes" if self._computing else "serves" if self._serving else ""

    @contextmanager
    def serving(self) -> Iterator[None]:
        depth = getattr(self._own, "depth", 0)
        with self._changed:
            if self._computing and not depth:
                raise CardComputes("the card of this worker computes")
            self._serving += 1
        self._own.depth = depth + 1
        try:
            yield
        finally:
            self._own.depth = depth
            with self._changed:
                self._serving -= 1
                self._changed.notify_all()

    @contextmanager
    def computing(self, check: Callable[[], None], *, alone: bool = False) -> Iterator[None]:
        """`check` is called while this waits, and may raise."""
        with self._changed:
            self._computing += 1
            self._alone += alone
        begun = False
        try:
            while not (begun := self._begins(alone)):
                check()
            yield
        finally:
            with self._changed:
                self._computing -= 1
                self._alone -= alone
                self._running -= begun
                self._changed.notify_all()

    def _begins(self, alone: bool) -> bool:
        """Whether its turn comes within `CHECK_S` seconds; then it counts as running."""
        with self._changed:
            is_free = self._changed.wait_for(
                lambda: not (self._serving or (self._running if alone else self._alone)), CHECK_S
            )
            self._running += is_free
            return is_free
