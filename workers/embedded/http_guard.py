"""What the embedded HTTP servers require of a request before any of it is parsed, and how they are served.

A web page in a browser on this machine can send requests to any local port, and another user can connect to it.  So
each request needs the key, a body is JSON of a bounded size that arrives in a bounded time, and a server on a loopback
address answers only to loopback names (a page could otherwise reach it through a name of its own: DNS rebinding).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from collections.abc import Iterator
from functools import partial
from typing import Any

import h11
import uvicorn
from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from tasks.http.hosts import is_loopback_name
from tasks.limits import HELD_REQUEST_BYTES, REQUEST_BYTES, REQUEST_CONNECTIONS, REQUEST_LEVELS

BODY_S, HEAD_S = 30.0, 10.0
"""How long the body, and what comes before it, may take to arrive."""
OPEN_PATHS = ("/health",)  # need no key, and take no body


class RequestRefused(Exception):
    """A request that is not passed on: an HTTP status, and why."""

    def __init__(self, status: int, message: str, code: str = "") -> None:
        super().__init__(message)
        self.status = status
        error = {"message": message, "type": "invalid_request_error", "param": None, "code": code or None}
        self.body = {"error": error}


class RequestGuard:
    """ASGI middleware.  `key` is not empty; with `loopback` only loopback names are answered."""

    def __init__(self, app: ASGIApp, key: str, loopback: bool) -> None:
        self._app, self._key, self._loopback = app, key, loopback
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        headers = dict(scope["headers"])
        try:
            self._check_host(headers)
            if scope["path"] not in OPEN_PATHS:
                self._check_key(headers)
            expected = _check_body(headers)
            if expected is None:
                return await self._app(scope, receive, send)
            if scope["path"] in OPEN_PATHS:
                raise RequestRefused(413, "this path takes no body")
            with self._holding(expected) as hold:
                body = await _read(receive, hold)
                return await self._app(scope, _replay(body, receive), send) if body is not None else None
        except RequestRefused as refused:
            close = {"connection": "close"}  # what is left of the body is not read
            return await JSONResponse(refused.body, refused.status, close)(scope, receive, send)

    def _check_host(self, headers: dict[bytes, bytes]) -> None:
        if self._loopback and not is_loopback_name(headers.get(b"host", b"").decode("latin-1")):
            raise RequestRefused(421, "this server is not the host of that name")

    def _check_key(self, headers: dict[bytes, bytes]) -> None:
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        same = secrets.compare_digest(given.strip(), self._key.encode())
        if scheme.lower() != b"bearer" or not same:
            raise RequestRefused(401, "a valid API key is needed", "invalid_api_key")

    @contextlib.contextmanager
    def _holding(self, expected: int) -> Iterator[_Hold]:
        """Count the bytes of one body for as long as its request is answered."""
        hold = _Hold(self)
        try:
            hold.grow(expected)
            yield hold
        finally:
            self._held -= hold.bytes

    def _take(self, count: int) -> None:
        if self._held + count > HELD_REQUEST_BYTES:
            raise RequestRefused(503, "the requests in progress hold all the memory that they may; try again later")
        self._held += count


class _Hold:
    """What one body has of the memory for all: at first what its head announces."""

    def __init__(self, guard: RequestGuard) -> None:
        self._guard, self.bytes = guard, 0

    def grow(self, size: int) -> None:
        """The body has `size` bytes by now.  Raises: RequestRefused."""
        if size > REQUEST_BYTES:
            raise RequestRefused(413, f"a request has at most {REQUEST_BYTES:,} bytes")
        if size > self.bytes:
            self._guard._take(size - self.bytes)
            self.bytes = size


def _check_body(headers: dict[bytes, bytes]) -> int | None:
    """The announced length, 0 for an unknown one; None where there is no body.  Raises: RequestRefused."""
    length = int(headers.get(b"content-length", b"0"))  # h11 has checked that it is a number
    if not length and b"transfer-encoding" not in headers:
        return None
    kind = headers.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise RequestRefused(415, "the content type of a request is application/json")
    if headers.get(b"content-encoding", b"identity").lower() != b"identity":
        raise RequestRefused(415, "a request is not compressed")
    return length


async def _read(receive: Receive, hold: _Hold) -> bytes | None:
    """The body; None when the client is gone.  Raises: RequestRefused."""
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    return None
                hold.grow(len(body) + len(message.get("body", b"")))
                body += message.get("body", b"")
                if not message.get("more_body"):
                    return bytes(body)
    except TimeoutError:
        raise RequestRefused(408, f"the body of a request arrives within {BODY_S:g} s") from None


def _replay(body: bytes, receive: Receive) -> Receive:
    """The body that was read, once, and then what comes after it."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay


def parse_body_json(raw: bytes) -> Any:
    """The value of a JSON text of at most `REQUEST_LEVELS` levels.  Raises: ValueError."""
    deep = ValueError(f"it has more than {REQUEST_LEVELS} levels of objects and lists")
    try:
        value = json.loads(raw)
    except RecursionError:
        raise deep from None
    level = [value]
    for _ in range(REQUEST_LEVELS):
        level = [
            child
            for part in level
            for child in (part.values() if isinstance(part, dict) else part if isinstance(part, list) else ())
            if isinstance(child, dict | list)
        ]
        if not level:
            return value
    raise deep


class _GuardedProtocol(H11Protocol):
    """uvicorn's HTTP/1.1 with a limit on connections, and on the time in which the head of a request arrives."""

    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > REQUEST_CONNECTIONS:
            transport.abort()
        else:
            self._watch_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def _watch_head(self) -> None:
        """Between two requests uvicorn closes the connection itself, but only while nothing arrives."""
        if self.conn.their_state is not h11.IDLE:
            self._stop_timer()
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_S, self.transport.abort)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


server_config = partial(uvicorn.Config, http=_GuardedProtocol, ws="none", log_level="warning", access_log=False)
"""How an embedded server is served."""
