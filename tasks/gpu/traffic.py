"""What this process has with its target server at this moment, for whoever looks after the worker."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

WINDOW_S = 10.0


class Traffic:
    """Counts requests in flight and generated tokens. Safe to use from several threads; `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._answers: deque[tuple[float, int]] = deque()  # when, and how many tokens
        self._in_flight = 0

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

    def answered(self, tokens: int) -> None:
        """An answer of so many tokens has come."""
        now = self._clock()
        with self._lock:
            self._answers.append((now, tokens))
            self._forget(now)

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


TRAFFIC = Traffic()  # of this process
