"""The connections of this process to target servers, on one event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import atexit
import threading
from contextlib import suppress
from urllib.parse import urlsplit

import aiohttp

from tasks.common.files import unix_path
from tasks.common.http import KEPT_S

CLOSE_S = 1.0
SESSIONS = 16  # a restarted server has another address


class Connections:
    """One HTTP session for each server and key.

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

    async def session(self, url: str, api_key: str | None = None) -> aiohttp.ClientSession:
        """The session for the server of an address, for coroutines of `loop` alone.

        The key goes with each request.  The least recently used sessions are closed.
        """
        parts = urlsplit(url)
        server = url if unix_path(url) is not None else f"{parts.scheme}://{parts.netloc}"
        session = self._sessions.pop((server, api_key), None) or _session(server, api_key)
        self._sessions[server, api_key] = session
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


def _session(server: str, api_key: str | None) -> aiohttp.ClientSession:
    path = unix_path(server)
    return aiohttp.ClientSession(
        headers={"Authorization": f"Bearer {api_key}"} if api_key else {},
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEPT_S)
        if path is None
        else aiohttp.UnixConnector(path, limit=0, keepalive_timeout=KEPT_S),
        cookie_jar=aiohttp.DummyCookieJar(),
    )


async def read_body(response: aiohttp.ClientResponse, most: int) -> bytes:
    """The body of a reply of at most so many bytes."""
    body = bytearray()
    while part := await response.content.readany():
        body += part
        if len(body) > most:
            response.close()  # the connection has more of this reply
            raise ValueError(f"the reply has more than {most:,} bytes, the most for this request")
    return bytes(body)


CONNECTIONS = Connections()  # of this process
