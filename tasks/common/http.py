"""HTTP as a client, with replies of a bounded size; a redirect is a reply like any other, and is not followed."""

from __future__ import annotations

from collections.abc import Iterator

import httpx2

from tasks.common.files import unix_path
from tasks.common.logs import redacted
from tasks.common.text import escape_control
from tasks.common.validation import REPLY_BYTES

OK = 200
CONNECT_S = 30.0
KEPT_S = 3.0  # an idle connection; servers close theirs after five seconds
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class OversizedReply(httpx2.ReadError):
    """The reply is larger than its limit; it was not read to its end."""


class _Limited(httpx2.SyncByteStream):
    """The body of a reply, up to a number of bytes."""

    def __init__(self, body: httpx2.SyncByteStream, most: int) -> None:
        self._body, self._most = body, most

    def __iter__(self) -> Iterator[bytes]:
        left = self._most
        for part in self._body:
            left -= len(part)
            if left < 0:
                raise OversizedReply(f"the reply has more than {self._most:,} bytes, the most for this request")
            yield part

    def close(self) -> None:
        self._body.close()


def http_url(base_url: str, path: str) -> str:
    """What to request of a server; over a Unix socket the host has no meaning."""
    base, mark, query = ("http://localhost" if unix_path(base_url) is not None else base_url).partition("?")
    return base.rstrip("/") + path + mark + query


def bounded_client(url: str, timeout_s: float, most: int = REPLY_BYTES) -> httpx2.Client:
    """A client for the server at `url`, which may be that of a Unix socket.

    `timeout_s` bounds the connection and each wait for a part of the reply, `most` the bytes of its body.  A proxy of
    the environment is used, but not for a server on this machine.
    """

    def limit(response: httpx2.Response) -> None:
        assert isinstance(response.stream, httpx2.SyncByteStream)
        response.stream = _Limited(response.stream, most)

    path = unix_path(url)
    is_here = path is not None or httpx2.URL(url).host in LOOPBACK
    return httpx2.Client(
        transport=httpx2.HTTPTransport(uds=path, limits=_limits()) if path is not None else None,
        limits=_limits(),
        timeout=httpx2.Timeout(timeout_s, connect=min(CONNECT_S, timeout_s)),
        follow_redirects=False,
        trust_env=not is_here,
        event_hooks={"response": [limit]},
    )


def _limits() -> httpx2.Limits:
    return httpx2.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=KEPT_S)


def fetch(url: str, path: str, timeout_s: float, *, key: str | None = None, most: int = REPLY_BYTES) -> httpx2.Response:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    with bounded_client(url, timeout_s, most) as client:
        return client.get(http_url(url, path), headers=headers)


def redirect_of(response: httpx2.Response) -> str:
    """Where a reply says to ask instead, in one line and without a password; "" when it does not."""
    location = response.headers.get("location", "") if 300 <= response.status_code < 400 else ""
    return escape_control(redacted(location))[:200]
