"""Counts of what this process sends to its target servers, and when each last answered."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

WINDOW_S = 10.0


class ServerStats:
    """Requests in flight, generated tokens a second, and when each server last answered.

    Safe to use from several threads; `clock` gives seconds.  A server is named by its base URL.
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
        """Count an answer of so many tokens from a server."""
        now = self._clock()
        with self._lock:
            self._answers.append((now, tokens))
            self._alive[url] = now
            self._forget(now)

    def alive(self, url: str) -> None:
        """Note that a server answered, such as its health check."""
        with self._lock:
            self._alive[url] = self._clock()

    def mark_unhealthy(self, url: str) -> None:
        """Note that a server did not answer: its earlier answers no longer count."""
        with self._lock:
            self._alive.pop(url, None)

    def was_alive(self, url: str, seconds: float) -> bool:
        """Whether a server has answered in the last so many seconds, and has not failed to answer since."""
        with self._lock:
            return self._clock() - self._alive.get(url, float("-inf")) <= seconds

    @property
    def in_flight(self) -> int:
        return self._in_flight

    def tokens_a_second(self) -> float:
        """Generated tokens a second, over the answers of the last `WINDOW_S` seconds."""
        with self._lock:
            self._forget(self._clock())
            return sum(tokens for _, tokens in self._answers) / WINDOW_S

    def _forget(self, now: float) -> None:
        while self._answers and self._answers[0][0] < now - WINDOW_S:
            self._answers.popleft()


SERVER_STATS = ServerStats()  # of this process
