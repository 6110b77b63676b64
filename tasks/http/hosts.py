"""Names by which a server on a loopback address is called.

A web page can make a browser resolve a name of the page's own to 127.0.0.1, and then read what a server there replies
(DNS rebinding).  The browser sends that name as `Host`, so a server that answers to loopback names alone is safe.
"""

from __future__ import annotations

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


def is_loopback_name(host: str) -> bool:
    """Whether the `Host` of a request, with or without a port, is a loopback name."""
    host = host.strip().lower()
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    return name in LOOPBACK
