"""Who may look at the pages, how often a password may be guessed, and what a browser may load for a page.

Flower compares passwords as texts, which fails with an exception for one that is not ASCII, and it has no limit on
guesses.  So its one place that decides on access is replaced (`protect`).
"""

from __future__ import annotations

import base64
import binascii
import hmac
import ipaddress
import math
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence

from flower.views import BaseHandler
from tornado.httputil import HTTPHeaders, HTTPServerRequest
from tornado.web import Application, HTTPError, OutputTransform

WRONG_ALLOWED, FORGIVEN_EVERY_S = 20, 6.0  # from one address: twenty at once, then ten in a minute
ADDRESSES = 10_000  # that have guessed wrong, and are remembered
TOO_MANY = 429
POLICY = (
    "default-src 'none'; script-src 'self' 'nonce-{nonce}'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "font-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


class WrongGuesses:
    """How many wrong passwords came from each address of late.  A full address is not asked for a password at all.

    Where a proxy is in front, all its users have one address: then the limit belongs into the proxy.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._counts: OrderedDict[str, tuple[float, float]] = OrderedDict()  # address -> (count, when it was so)

    def wait_s(self, address: str) -> float:
        """How long nothing from this address is looked at; 0 when it may try."""
        over = self._count(_network(address)) - (WRONG_ALLOWED - 1)
        return max(0.0, over * FORGIVEN_EVERY_S)

    def add(self, address: str) -> None:
        network = _network(address)
        self._counts[network] = (self._count(network) + 1, self._clock())
        self._counts.move_to_end(network)
        if len(self._counts) > ADDRESSES:
            self._counts.popitem(last=False)

    def _count(self, network: str) -> float:
        count, at = self._counts.get(network, (0.0, 0.0))
        return max(0.0, count - (self._clock() - at) / FORGIVEN_EVERY_S)


class Guard:
    """Lets those in who send one of the accepted "user:password"."""

    def __init__(self, accepted: Sequence[str], guesses: WrongGuesses) -> None:
        self._accepted = [pair.encode() for pair in accepted]
        self._guesses = guesses

    def check(self, address: str, authorization: str) -> None:
        """`authorization` is the header of a request, or "".  Raises: HTTPError with 401 or 429."""
        if not authorization:
            raise HTTPError(401)  # a browser asks first without a password; that is no guess
        if wait_s := self._guesses.wait_s(address):
            raise HTTPError(TOO_MANY, f"too many wrong passwords; try again in {math.ceil(wait_s)} s")
        sent = _sent(authorization)
        matches = [hmac.compare_digest(pair, sent) for pair in self._accepted]  # all, so that time tells nothing
        if not any(matches):
            self._guesses.add(address)
            raise HTTPError(401)


class SecurityHeaders(OutputTransform):
    """Adds to each reply what the browser may load for it.  A script in a page needs the nonce of its request."""

    def __init__(self, request: HTTPServerRequest) -> None:
        super().__init__(request)
        self._nonce = secrets.token_urlsafe(16)
        setattr(request, "nonce", self._nonce)  # noqa: B010  # for the templates; tornado does not declare it

    def transform_first_chunk(
        self, status_code: int, headers: HTTPHeaders, chunk: bytes, finishing: bool
    ) -> tuple[int, HTTPHeaders, bytes]:
        headers["Content-Security-Policy"] = POLICY.format(nonce=self._nonce)
        headers["X-Frame-Options"] = "DENY"
        headers["Referrer-Policy"] = "same-origin"
        return status_code, headers, chunk


def protect(app: Application, accepted: Sequence[str]) -> None:
    """Put the guard before all pages of Flower and ours, and the headers on all replies."""
    guard = Guard(accepted, WrongGuesses())

    def get_current_user(handler: BaseHandler) -> bool:
        guard.check(handler.request.remote_ip or "", handler.request.headers.get("Authorization", ""))
        return True

    BaseHandler.get_current_user = get_current_user
    app.add_transform(SecurityHeaders)


def _sent(authorization: str) -> bytes:
    """The "user:password" of a header of basic authentication; empty for anything else."""
    kind, _, encoded = authorization.partition(" ")
    if kind.lower() != "basic":
        return b""
    try:
        return base64.b64decode(encoded.strip().encode(), validate=True)
    except (binascii.Error, ValueError):
        return b""


def _network(address: str) -> str:
    """An address, or the network of an IPv6 address: one user has all addresses of a /64."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    return str(ipaddress.ip_network((found, 64), strict=False)) if found.version == 6 else address
