"""The requests of this process to its target server: how many are in flight at once, and which is sent next.

All tasks of a gpu worker share one queue.  It sends the requests in the order in which they came, so that the
individual that began first ends first, and the last answers of one individual run beside the first of the next.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Turn = asyncio.Future[None]  # is done when its request may be sent


class RequestQueue:
    """First come, first served.  `batch` and `end` are for one event loop; the rest may be read from any thread.

    `on_room` is called, in the loop, whenever no request waits any more.
    """

    def __init__(self) -> None:
        self.batches = 0  # lists of requests with one that waits or is in flight
        self.on_room: Callable[[], object] = lambda: None
        self._waiting: OrderedDict[Turn, int] = OrderedDict()  # and the limit of each
        self._sent: set[Turn] = set()

    @property
    def in_flight(self) -> int:
        return len(self._sent)

    @property
    def waiting(self) -> int:
        """Requests that will be sent when others have been answered."""
        return len(self._waiting)

    @contextmanager
    def batch(self, count: int, limit: int) -> Iterator[list[Turn]]:
        """So many turns behind all earlier ones, for requests that are sent while fewer than `limit` are in flight."""
        loop = asyncio.get_running_loop()
        turns = [loop.create_future() for _ in range(count)]
        self._waiting.update(dict.fromkeys(turns, limit))
        self.batches += 1
        self._send()
        try:
            yield turns
        finally:
            self.batches -= 1
            for turn in turns:
                self._waiting.pop(turn, None)
                self._sent.discard(turn)
            self._send()

    def end(self, turn: Turn) -> None:
        """The request of this turn was answered, or is given up."""
        waiting = self.waiting
        self._waiting.pop(turn, None)
        self._sent.discard(turn)
        if waiting:
            self._send()

    def _send(self) -> None:
        while self._waiting:
            turn, limit = next(iter(self._waiting.items()))
            if self.in_flight >= limit:
                return
            del self._waiting[turn]
            self._sent.add(turn)
            if not turn.done():  # a request that was given up has not ended its turn yet
                turn.set_result(None)
        self.on_room()


REQUESTS = RequestQueue()  # of this process
