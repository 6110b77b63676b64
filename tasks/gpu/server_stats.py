"""What this process has with its target server at this moment, for whoever looks after the worker."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

WINDOW_S = 10.0


class ServerStats:
    """Counts requests in flight and generated tokens, and remembers when each server last gave a sign of life.

    Safe to use from several threads; `clock` gives seconds.  A server is known by its base URL.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._answers: deque[tuple[float, int]] = deque()  # when, and how many tokens
        self._in_flight = 0
        self._alive: dict[str, float] = {}

    @contextmanager
    def request(self) -> Iterator[None]:
        """Inside the block one more request is in flight."""
        with self._lock:
            self._in_flight += 1
        try:
            yield
        finally:
            with self._lock:
                self._in_flight -= 1

    def answered(self, url: str, tokens: int) -> None:
        """A server has given an answer of so many tokens."""
        now = self._clock()
        with self._lock:
            self._answers.append((now, tokens))
            self._alive[url] = now
            self._forget(now)

    def alive(self, url: str) -> None:
        """A server has given another sign of life."""
        with self._lock:
            self._alive[url] = self._clock()

    def doubt(self, url: str) -> None:
        """A server did not answer: what it gave before says nothing any more."""
        with self._lock:
            self._alive.pop(url, None)

    def was_alive(self, url: str, seconds: float) -> bool:
        """Whether it has given a sign of life in the last so many seconds, and has not failed to answer since."""
        with self._lock:
            return self._clock() - self._alive.get(url, float("-inf")) <= seconds

    @property
    def in_flight(self) -> int:
        return self._in_flight

    def tokens_a_second(self) -> float:
        """Generated tokens a second in answers that came in the last ten seconds."""
        with self._lock:
            self._forget(self._clock())
            return sum(tokens for _, tokens in self._answers) / WINDOW_S

    def _forget(self, now: float) -> None:
        while self._answers and self._answers[0][0] < now - WINDOW_S:
            self._answers.popleft()


TRAFFIC = ServerStats()  # of this process
