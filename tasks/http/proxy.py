"""Which proxy a request goes through: that of the environment, and none to an address of this machine."""

from __future__ import annotations

import ipaddress
import socket
from urllib.parse import urlsplit
from urllib.request import getproxies_environment, proxy_bypass


def proxy_for(url: str) -> str | None:
    """The proxy of HTTP_PROXY, HTTPS_PROXY or ALL_PROXY for an http(s) address; None without one.

    A request to this machine never leaves it, whatever the environment says; NO_PROXY names further exceptions.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    proxies = getproxies_environment()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or is_this_machine(host) or proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def is_this_machine(host: str) -> bool:
    """Whether a name or an address in any notation is a loopback one, or this machine's name."""
    name = host.lower().rstrip(".")
    if name in ("", "localhost", socket.gethostname().lower()) or name.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        try:
            address = ipaddress.IPv4Address(socket.inet_aton(name))  # 127.1, 0x7f000001 and the like
        except OSError:
            return False
    plain = getattr(address, "ipv4_mapped", None) or address
    return bool(plain.is_loopback or plain.is_unspecified)
