"""The HTTP connections of this process: to target servers, endpoints, and whatever a check asks."""

from __future__ import annotations

import asyncio
import atexit
import ssl
import threading
from contextlib import suppress
from functools import cache
from os import environ
from urllib.parse import urlsplit

import aiohttp

from tasks.http.address import unix_path

KEPT_S = 3.0  # an idle connection; servers close theirs after five seconds
CLOSE_S = 1.0
SESSIONS = 16  # a restarted server has another address


class Connections:
    """One HTTP session for each server and key, all on one event loop in a thread of its own.

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
    """Bounded by its users (`tasks.http.bounded`): replies are read as they are sent, and no cookie is kept."""
    path, is_tls = unix_path(server), urlsplit(server).scheme == "https"
    connector: aiohttp.BaseConnector = (
        aiohttp.TCPConnector(limit=0, keepalive_timeout=KEPT_S, ssl=_tls() if is_tls else True)
        if path is None
        else aiohttp.UnixConnector(path, limit=0, keepalive_timeout=KEPT_S)
    )
    return aiohttp.ClientSession(
        headers={"Accept-Encoding": "identity"} | ({"Authorization": f"Bearer {api_key}"} if api_key else {}),
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        # A proxy is chosen for each request (`tasks.http.proxy`), and passwords of .netrc are never sent.
        trust_env=False,
    )


@cache
def _tls() -> ssl.SSLContext:
    """The authorities of this machine and those of certifi; only those of SSL_CERT_FILE or SSL_CERT_DIR if set."""
    context = ssl.create_default_context()
    if not (environ.get("SSL_CERT_FILE") or environ.get("SSL_CERT_DIR")):
        import certifi

        context.load_verify_locations(certifi.where())
    return context


CONNECTIONS = Connections()  # of this process
