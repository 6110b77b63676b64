"""Servers that we start on the loopback interface: a port for one, and whether one is in health."""

from __future__ import annotations

import http.client
import socket
from urllib.parse import urlsplit


def free_port() -> int:
    """A TCP port of 127.0.0.1 that is free at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_healthy(base_url: str, timeout_s: float = 2.0) -> bool:
    """Whether GET /health under `base_url` (http or https) answers 200 in time. No proxy is ever asked."""
    parts = urlsplit(base_url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=timeout_s)
    try:
        connection.request("GET", parts.path.rstrip("/") + "/health")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
