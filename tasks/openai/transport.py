"""The SDK's requests, sent by the program's own HTTP client: the reply is bounded in time and size, never redirected.

The SDK bounds each read and not the whole reply, and unpacks whatever it is sent.
"""

from __future__ import annotations

import httpx2

from tasks.http.address import unix_path
from tasks.http.bounded import HttpFailed, NotConnected, ReplyLimits, ReplyTimedOut, ReplyTooLarge, fetch

# Of the connection between client and server, and so no part of a request that another client sends.
_OF_THE_CONNECTION = frozenset({"host", "connection", "content-length", "transfer-encoding", "accept-encoding"})


class OversizedReply(httpx2.ReadError):
    """The reply is larger than its limit; it was not read to its end."""


class BoundedTransport(httpx2.BaseTransport):
    """Sends what a client of httpx2 is asked to; its errors are those of httpx2, which the SDK knows.

    Where `server` is the URL of a Unix socket, every request goes there; otherwise each goes where its own URL says.
    """

    def __init__(self, limits: ReplyLimits, server: str) -> None:
        self._limits, self._server = limits, server

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        is_local = unix_path(self._server) is not None
        url, path = (self._server, request.url.raw_path.decode()) if is_local else (str(request.url), "")
        headers = {name: value for name, value in request.headers.items() if name not in _OF_THE_CONNECTION}
        try:
            reply = fetch(
                request.method,
                url,
                self._limits,
                path=path,
                headers=headers,
                content=request.read(),
                use_proxy=not is_local,
            )
        except NotConnected as error:
            raise httpx2.ConnectError(str(error), request=request) from error
        except ReplyTimedOut as error:
            raise httpx2.ReadTimeout(str(error), request=request) from error
        except ReplyTooLarge as error:
            raise OversizedReply(str(error), request=request) from error
        except HttpFailed as error:
            raise httpx2.ReadError(str(error), request=request) from error
        kept = {name: value for name, value in reply.headers.items() if name not in _OF_THE_CONNECTION}
        return httpx2.Response(reply.status, headers=kept, content=reply.body, request=request)


def bounded_client(limits: ReplyLimits, server: str) -> httpx2.Client:
    """A client for the SDK."""
    return httpx2.Client(
        transport=BoundedTransport(limits, server), timeout=limits.total_s, follow_redirects=False, trust_env=False
    )
