"""The key of the embedded HTTP servers.  They listen on Unix sockets that only their user can open."""

from __future__ import annotations

import secrets

from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

OPEN_PATH = "/health"  # needs no key


class BearerKey:
    """ASGI middleware: each request carries the key as its bearer token."""

    def __init__(self, app: ASGIApp, key: str) -> None:
        self._app, self._expected = app, f"Bearer {key}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] != OPEN_PATH:
            given = dict(scope["headers"]).get(b"authorization", b"")
            if not secrets.compare_digest(given, self._expected):
                error = {"message": "a valid API key is needed", "code": "invalid_api_key"}
                return await JSONResponse({"error": error}, 401)(scope, receive, send)
        return await self._app(scope, receive, send)
