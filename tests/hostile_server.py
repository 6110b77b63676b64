"""A server over HTTP whose replies have no end, come too slowly, or lead elsewhere: as the first word of the path says.

Each other request gets a short answer, also one that was meant for a proxy.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

from http_thread import http_server

CHUNK = b"10000\r\n" + b" " * 65_536 + b"\r\n"
PACE_S = 0.05  # between the bytes of a reply that trickles


@dataclass
class Hostile:
    """The server: its address, and the paths that were requested."""

    url: str = ""
    asked: list[str] = field(default_factory=list)


@contextmanager
def hostile_server() -> Iterator[Hostile]:
    hostile, ended = Hostile(), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            hostile.asked.append(self.path)
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            kind = self.path.split("/")[1]
            if kind == "endless":
                self.head(200, "Transfer-Encoding", "chunked")
                while True:
                    self.wfile.write(CHUNK)
            elif kind == "trickle":
                self.head(200, "Content-Length", "90000")
                while not ended.wait(PACE_S):
                    self.wfile.write(b" ")
            elif kind == "redirect":
                self.head(307, "Location", f"{hostile.url}/elsewhere", "Content-Length", "0")
            else:
                self.head(200, "Content-Length", "8")
                self.wfile.write(b'{"a": 1}')

        do_POST = do_GET  # noqa: N815  # the name that the server looks for

        def head(self, status: int, *headers: str) -> None:
            self.send_response(status)
            for name, value in zip(headers[::2], headers[1::2], strict=True):
                self.send_header(name, value)
            self.end_headers()

    with http_server(Handler) as hostile.url:
        try:
            yield hostile
        finally:
            ended.set()
