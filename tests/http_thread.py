"""HTTP servers of a test, in a thread of this process."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

CHUNK = b"10000\r\n" + b" " * 65_536 + b"\r\n"
PACE_S = 0.05  # between the bytes of a reply that trickles


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads, block_on_close, allow_reuse_address = True, False, True

    def handle_error(self, *_: object) -> None:
        """The client has gone away."""


@contextmanager
def http_server(handler: type[socketserver.BaseRequestHandler]) -> Iterator[str]:
    """Serve at a free port while the block runs, without a line for each request; gives the server's address."""

    class Quiet(handler):  # type: ignore[misc, valid-type]
        def log_message(self, *_: object) -> None:
            return

    with _Server(("127.0.0.1", 0), Quiet) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@dataclass
class Hostile:
    """The server: its address, and the paths that were requested."""

    url: str = ""
    asked: list[str] = field(default_factory=list)


@contextmanager
def hostile_server() -> Iterator[Hostile]:
    """Its replies have no end, come too slowly, or lead elsewhere: as the first word of the path says.

    Each other request gets a short answer, also one that was meant for a proxy.
    """
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
