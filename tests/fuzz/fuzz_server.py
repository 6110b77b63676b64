"""An HTTP server that sends any reply, valid or not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

from http_thread import http_server


@dataclass
class Reply:
    """One reply; `length` is the value of its Content-Length header, None for the true one."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    length: int | None = None


class ReplyServer:
    """The address of the server, and its next reply."""

    def __init__(self) -> None:
        self.reply = Reply()
        self.url = ""


@contextmanager
def serve() -> Iterator[ReplyServer]:
    server_state = ReplyServer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            reply = server_state.reply
            self.send_response(reply.status)
            headers = {"Content-Type": "application/json", **reply.headers}
            headers["Content-Length"] = str(len(reply.body) if reply.length is None else reply.length)
            headers["Connection"] = "close"
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(reply.body)
            self.close_connection = True

    with http_server(Handler) as server_state.url:
        yield server_state
