"""Where a server listens: a host and a port, or a Unix socket."""

from __future__ import annotations

from pathlib import Path

UNIX = "unix"
"""The scheme of a server's base URL that is the path of a socket: unix:/run/target.sock."""


def unix_url(path: Path) -> str:
    """The base URL of the server that listens on the socket `path`."""
    return f"{UNIX}:{path}"


def unix_path(url: str) -> str | None:
    """The path of the Unix socket that a base URL names; None for a URL of a port."""
    scheme, _, path = url.partition(":")
    return path if scheme == UNIX else None


def http_url(base_url: str, path: str) -> str:
    """What to request of a server; over a Unix socket the host has no meaning."""
    base = "http://localhost" if unix_path(base_url) is not None else base_url
    return base.rstrip("/") + path
