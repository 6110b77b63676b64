"""An HTTP server that answers every request with what it was told to, right or not."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Answer:
    """What goes over the wire; `length` is what the header promises, None for the truth."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    length: int | None = None


class Rubbish:
    """The server's address, and its next answer."""

    def __init__(self) -> None:
        self.answer = Answer()
        self.url = ""


@contextmanager
def serve() -> Iterator[Rubbish]:
    rubbish = Rubbish()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            answer = rubbish.answer
            self.send_response(answer.status)
            headers = {"Content-Type": "application/json", **answer.headers}
            headers["Content-Length"] = str(len(answer.body) if answer.length is None else answer.length)
            headers["Connection"] = "close"
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.body)
            self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    rubbish.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield rubbish
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
