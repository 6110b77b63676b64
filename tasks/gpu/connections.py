"""The HTTP connections of this process to its target servers, and counts of what is sent over them."""

from __future__ import annotations

import asyncio
import atexit
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import aiohttp

WINDOW_S = 10.0
KEPT_S = 3.0  # an idle connection; servers close theirs after five seconds
CLOSE_S = 1.0
SESSIONS = 8  # a restarted server has another address


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


class Connections:
    """One HTTP session for each address and key, all on one event loop in a thread of its own.

    Tasks run in threads that come and go; connections are kept between them.  One loop for all tasks holds hundreds
    of requests in flight, and is not delayed by what a task does with its answers.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sessions: dict[tuple[str, str | None], aiohttp.ClientSession] = {}

    def loop(self) -> asyncio.AbstractEventLoop:
        """The running loop, started on the first call; it ends with the process."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="connections", daemon=True).start()
                atexit.register(self._close)
            return self._loop

    async def session(self, base_url: str, api_key: str | None) -> aiohttp.ClientSession:
        """The session for a server, for coroutines of `loop` alone.  The least recently used ones are closed."""
        session = self._sessions.pop((base_url, api_key), None) or aiohttp.ClientSession(
            headers={"Authorization": f"Bearer {api_key}"} if api_key else {},
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEPT_S),
            # A proxy in the environment is for the internet, not for a server in the same network.
            trust_env=False,
        )
        self._sessions[base_url, api_key] = session
        while len(self._sessions) > SESSIONS:
            await self._sessions.pop(next(iter(self._sessions))).close()
        return session

    def _close(self) -> None:
        """Close all sessions, as aiohttp requires; waits for no server longer than `CLOSE_S`."""

        async def close() -> None:
            for session in self._sessions.values():
                await session.close()

        with suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(close(), self.loop()).result(CLOSE_S)


SERVER_STATS = ServerStats()  # of this process
CONNECTIONS = Connections()  # of this process
