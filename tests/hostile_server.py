"""A server over HTTP whose replies have no end, come too slowly, or lead elsewhere.

Each request gets the reply that its path names, whatever its method: `/endless` and the others of `replies`.
"""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

from http_thread import http_server

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
CHUNK = b"10000\r\n" + b" " * 65_536 + b"\r\n"
ANSWER = json.dumps(
    {
        "text": "x",
        "output_ids": [5, 2],
        "meta_info": {"finish_reason": {"type": "stop", "matched": 2}, "prompt_tokens": 2, "cached_tokens": 0},
    }
).encode()
PACE_S = 0.05  # between the bytes of a reply that trickles


@dataclass
class Hostile:
    """The server: its address, and the paths that were requested."""

    url: str = ""
    asked: list[str] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)


def replies(hostile: Hostile) -> dict[str, Callable[[], Iterator[bytes]]]:
    def endless() -> Iterator[bytes]:
        yield HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
        while True:
            yield CHUNK

    def trickle() -> Iterator[bytes]:
        yield HEAD + b"Content-Length: 90000\r\n\r\n"
        while not hostile.ended.wait(PACE_S):
            yield b" "

    def whole(head: bytes, body: bytes) -> Iterator[bytes]:
        yield head + b"Content-Length: %d\r\n\r\n" % len(body) + body

    elsewhere = f"Location: {hostile.url}/elsewhere\r\n".encode()
    return {
        "endless": endless,
        "trickle": trickle,
        "redirect": lambda: whole(b"HTTP/1.1 307 Temporary Redirect\r\n" + elsewhere, b""),
        "generate": lambda: whole(HEAD, ANSWER),
        "elsewhere": lambda: whole(HEAD, b'{"a": 1}'),
    }


@contextmanager
def hostile_server() -> Iterator[Hostile]:
    hostile = Hostile()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while line := self.rfile.readline():
                asked = line.split()[1].decode()
                headers = b"".join(iter(self.rfile.readline, b"\r\n")).lower().split(b"\r\n")
                hostile.asked.append(asked)
                self.rfile.read(next((int(h[15:]) for h in headers if h.startswith(b"content-length:")), 0))
                for part in replies(hostile)[asked.split("/")[1]]():
                    self.connection.sendall(part)

    with http_server(Handler) as hostile.url:
        try:
            yield hostile
        finally:
            hostile.ended.set()


@contextmanager
def counting_proxy() -> Iterator[tuple[str, list[str]]]:
    """The address of a proxy that passes nothing on, and the first lines of the requests that reached it."""
    seen: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.requestline)
            self.send_error(502)

        do_POST = do_GET  # noqa: N815  # the name that the server looks for

    with http_server(Handler) as url:
        yield url, seen
