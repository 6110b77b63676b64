"""A server over HTTP whose replies have no end, come too slowly, or lead elsewhere.

Each request gets the reply that its path names, whatever its method: `/endless` and the others of `replies`.
"""

from __future__ import annotations

import contextlib
import json
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

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


class _Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        hostile: Hostile = self.server.hostile  # type: ignore[attr-defined]
        while line := self.rfile.readline():
            path = line.split()[1].decode()
            headers = b"".join(iter(self.rfile.readline, b"\r\n"))
            length = next((int(h[15:]) for h in headers.split(b"\r\n") if h.lower().startswith(b"content-length:")), 0)
            hostile.asked.append(path)
            self.rfile.read(length)
            for part in replies(hostile)[path.split("/")[1]]():
                self.connection.sendall(part)


class _Tcp(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    block_on_close = False

    def handle_error(self, *_: object) -> None:
        """The client has hung up, as it should."""


class _Unix(_Tcp):
    address_family = socket.AF_UNIX


@contextmanager
def hostile_server(path: Path | None = None) -> Iterator[Hostile]:
    """The server at a free port, or at the Unix socket of a path."""
    hostile = Hostile()
    kind, address = (_Unix, str(path)) if path else (_Tcp, ("127.0.0.1", 0))
    with kind(address, _Handler) as server:  # type: ignore[arg-type]
        hostile.url = f"unix:{path}" if path else f"http://127.0.0.1:{server.server_address[1]}"
        server.hostile = hostile  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield hostile
        finally:
            hostile.ended.set()
            server.shutdown()
            thread.join()


@contextmanager
def counting_proxy() -> Iterator[tuple[str, list[str]]]:
    """The address of a proxy that passes nothing on, and the first lines of the requests that reached it."""
    seen: list[str] = []

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            seen.append(self.rfile.readline().decode().strip())
            with contextlib.suppress(OSError):
                self.wfile.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    with _Tcp(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", seen
        finally:
            server.shutdown()
            thread.join()
