"""The Unix sockets of an embedded farm, in this user's private folder, and the key of its HTTP servers.

Nobody else may connect, nor hold connections.  The paths must be under 107 bytes, so they are not in the farm's folder.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.common.files import is_own_folder, runtime_folder, runtime_socket

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

OPEN_PATH = "/health"  # needs no key


def farm_socket(server: str, folder: Path) -> Path:
    """The path of a server's socket for this farm folder, always the same.  Creates nothing."""
    name = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:12]
    return runtime_socket(f"{server}-{name}")


def listen_privately(path: Path) -> socket.socket:
    """A socket that listens at a path of `farm_socket`, in place of what a killed farm left there."""
    runtime_folder()
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(str(path))
        listener.listen(socket.SOMAXCONN)
    except BaseException:
        listener.close()
        raise
    return listener


def remove_farm_socket(server: str, folder: Path) -> None:
    """Remove the socket, if it exists in this user's folder for sockets."""
    path = farm_socket(server, folder)
    if is_own_folder(path.parent):
        path.unlink(missing_ok=True)


class BearerKey:
    """ASGI middleware of the embedded HTTP servers: each request carries the key as its bearer token."""

    def __init__(self, app: ASGIApp, key: str) -> None:
        self._app, self._expected = app, f"Bearer {key}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] != OPEN_PATH:
            given = dict(scope["headers"]).get(b"authorization", b"")
            if not secrets.compare_digest(given, self._expected):
                from starlette.responses import JSONResponse

                error = {"message": "a valid API key is needed", "code": "invalid_api_key"}
                return await JSONResponse({"error": error}, 401)(scope, receive, send)
        return await self._app(scope, receive, send)
