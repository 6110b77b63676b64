"""One request over HTTP, and a reply that is bounded in time and in size.  All clients of this program use it.

A reply is given up when it is not whole in time, however slowly or quickly its bytes come, and when it is larger than
the caller allows, as it is sent or after decompression.  Its status line and headers are bounded by aiohttp.  A
redirect is a reply like any other: the request is not sent to another address.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

import aiohttp

from tasks.escape import escape_control
from tasks.http.address import http_url
from tasks.http.connections import CONNECTIONS
from tasks.http.proxy import proxy_for
from tasks.store.address import redacted

OK = 200
CONNECT_S = 30.0
GZIP = 31  # zlib's parameter for gzip with the largest window


@dataclass(frozen=True)
class ReplyLimits:
    """`total_s` is from the beginning of the request to the last byte of the reply; `body_bytes` is its body."""

    total_s: float
    body_bytes: int


@dataclass(frozen=True)
class HttpReply:
    """A whole reply; `headers` have lower-case names."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    def redirect(self) -> str:
        """Where the reply says to ask instead, in one line and without a password; "" when it does not."""
        location = self.headers.get("location", "") if 300 <= self.status < 400 else ""
        return escape_control(redacted(location))[:200]


class HttpFailed(Exception):
    """There is no whole reply."""


class NotConnected(HttpFailed):
    """The request did not reach the server."""


class ReplyTimedOut(HttpFailed):
    """No whole reply in time."""


class ReplyTooLarge(HttpFailed):
    """The reply is larger than allowed; it was not read to its end."""


async def exchange(
    http: aiohttp.ClientSession,
    method: str,
    url: str,
    limits: ReplyLimits,
    *,
    headers: Mapping[str, str] | None = None,
    content: bytes | None = None,
    use_proxy: bool = False,
) -> HttpReply:
    """The reply to one request, in the loop of `CONNECTIONS`.

    With `use_proxy` the environment may name a proxy (`proxy_for`).

    Raises: HttpFailed.
    """
    timeout = aiohttp.ClientTimeout(total=limits.total_s, sock_connect=min(CONNECT_S, limits.total_s))
    try:
        proxy = proxy_for(url) if use_proxy else None
        async with http.request(
            method, url, data=content, headers=headers, timeout=timeout, allow_redirects=False, proxy=proxy
        ) as response:
            try:
                body = await _read_body(response, limits.body_bytes)
            except BaseException:
                response.close()  # the connection has more of this reply
                raise
            found = {name.lower(): value for name, value in response.headers.items()}
            encoding = found.pop("content-encoding", "")
            return HttpReply(response.status, found, _decompressed(body, encoding, limits.body_bytes))
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, ValueError) as error:
        # ValueError: an address or a proxy that cannot be requested.
        raise NotConnected(_reason(error)) from error
    except TimeoutError as error:
        raise ReplyTimedOut(f"no whole reply within {limits.total_s:g} s") from error
    except aiohttp.ClientError as error:
        raise HttpFailed(_reason(error)) from error


def fetch(
    method: str,
    url: str,
    limits: ReplyLimits,
    *,
    path: str = "",
    headers: Mapping[str, str] | None = None,
    content: bytes | None = None,
    use_proxy: bool = False,
) -> HttpReply:
    """As `exchange`, for threads.  `path` is added to `url`, which may be that of a Unix socket.

    Raises: HttpFailed.
    """

    async def ask() -> HttpReply:
        http, whole = await CONNECTIONS.session(url), http_url(url, path) if path else url
        return await exchange(http, method, whole, limits, headers=headers, content=content, use_proxy=use_proxy)

    asked = asyncio.run_coroutine_threadsafe(ask(), CONNECTIONS.loop())
    try:
        return asked.result()
    finally:
        asked.cancel()


async def _read_body(response: aiohttp.ClientResponse, limit: int) -> bytes:
    if (response.content_length or 0) > limit:
        raise _too_large(limit)
    body = bytearray()
    while chunk := await response.content.readany():
        body += chunk
        if len(body) > limit:
            raise _too_large(limit)
    return bytes(body)


def _decompressed(body: bytes, encoding: str, limit: int) -> bytes:
    """A server that compresses though identity was requested may use gzip, and nothing else.  Raises: HttpFailed."""
    if not body or encoding.lower() in ("", "identity"):
        return body
    if encoding.lower() not in ("gzip", "x-gzip"):
        raise HttpFailed(f"the reply is compressed by {encoding[:40]!r}, and an uncompressed one was requested")
    inflate = zlib.decompressobj(GZIP)
    try:
        content = inflate.decompress(body, limit + 1)
    except zlib.error as error:
        raise HttpFailed(f"the reply cannot be decompressed: {error}") from error
    if len(content) > limit:
        raise _too_large(limit)
    if not inflate.eof or inflate.unused_data:
        raise HttpFailed("the compressed reply is not one whole gzip stream")
    return content


def _reason(error: Exception) -> str:
    """An error in one line; aiohttp quotes what the server has sent."""
    return escape_control(f"{type(error).__name__} {error}".rstrip())[:300]


def _too_large(limit: int) -> ReplyTooLarge:
    return ReplyTooLarge(f"the reply has more than {limit:,} bytes, the most allowed for this request")
