"""Which proxy a request goes through: that of the environment, and none to an address of this machine."""

from __future__ import annotations

import ipaddress
import socket
from urllib.request import getproxies_environment, proxy_bypass

from yarl import URL

LOCAL_NAMES = frozenset({"", "localhost", "localhost.localdomain", "localhost6", "ip6-localhost", "ip6-loopback"})
"""What distributions of Linux call the loopback addresses in /etc/hosts."""


def proxy_for(url: str) -> str | None:
    """The proxy of HTTP_PROXY, HTTPS_PROXY or ALL_PROXY for an http(s) address; None without one.

    A request to this machine never leaves it, whatever the environment says; NO_PROXY names further exceptions.

    Raises: ValueError for a URL or a proxy that cannot be requested; a proxy's is not shown, as it may have a password.
    """
    parts = URL(url)  # aiohttp reads the address so, and some spellings of a host are one to it
    host, place = parts.host or "", parts.authority.rpartition("@")[2]
    proxies = getproxies_environment()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or is_this_machine(host) or proxy_bypass(place):
        return None
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    try:
        is_usable = URL(proxy).scheme in ("http", "https") and bool(URL(proxy).host)
    except ValueError:
        is_usable = False
    if not is_usable:
        raise ValueError(f"the proxy that the environment names for {parts.scheme} is not http://HOST:PORT")
    return proxy


def is_this_machine(host: str) -> bool:
    """Whether a name or an address in any notation is a loopback one, or this machine's name."""
    name = host.lower().rstrip(".")
    if name in LOCAL_NAMES or name == socket.gethostname().lower() or name.endswith(".localhost"):
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
