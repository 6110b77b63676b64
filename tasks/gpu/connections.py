"""The connections of this process to its target servers: kept between evaluations, served by a thread of their own.

Evaluations run in threads and come and go; what they have in common is the server.  One event loop for all of them
keeps hundreds of requests in flight, and is never held up by what a thread does with its answers.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
from contextlib import suppress

import aiohttp

KEPT_S = 3.0  # an idle connection; servers close theirs after five seconds
CLOSE_S = 1.0
SESSIONS = 8  # a server that was started again has another address


class Connections:
    """Sessions by address and key; `session` is for coroutines of `loop` alone."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sessions: dict[tuple[str, str | None], aiohttp.ClientSession] = {}

    def loop(self) -> asyncio.AbstractEventLoop:
        """The running loop, started when it is first asked for; it ends with the process."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="connections", daemon=True).start()
                atexit.register(self._close)
            return self._loop

    async def session(self, base_url: str, api_key: str | None) -> aiohttp.ClientSession:
        """The session for a server; the ones that were used the longest ago are closed."""
        found = self._sessions.pop((base_url, api_key), None) or aiohttp.ClientSession(
            headers={"Authorization": f"Bearer {api_key}"} if api_key else {},
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEPT_S),
            # A proxy of the environment is meant for the world outside, not for a server beside us.
            trust_env=False,
        )
        self._sessions[base_url, api_key] = found
        while len(self._sessions) > SESSIONS:
            await self._sessions.pop(next(iter(self._sessions))).close()
        return found

    def _close(self) -> None:
        """Leave nothing open behind, as aiohttp asks; a process that ends does not wait for a server."""

        async def close() -> None:
            for session in self._sessions.values():
                await session.close()

        with suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(close(), self.loop()).result(CLOSE_S)


CONNECTIONS = Connections()  # of this process
