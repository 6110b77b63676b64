"""A Valkey whose socket is out of reach, or whose open connections fall silent."""

from __future__ import annotations

import os
import select
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import redis

CHUNK = 65536


class Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads, block_on_close = True, False


@contextmanager
def moved_socket(path: Path, hidden: Path) -> Iterator[None]:
    """Within the block the socket of a Valkey is at another path, and its earlier connections are closed."""
    os.rename(path, hidden)
    try:
        with suppress(redis.RedisError), redis.Redis(unix_socket_path=str(hidden), socket_timeout=5) as client:
            for kind in ("normal", "pubsub"):
                client.execute_command("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")
        yield
    finally:
        # A farm that ended meanwhile has removed the folder of the socket; a new Valkey has bound the path again.
        if path.parent.is_dir() and not path.exists():
            os.rename(hidden, path)
        hidden.unlink(missing_ok=True)


@contextmanager
def silent_connections(path: Path, hidden: Path, settle: Callable[[], object]) -> Iterator[None]:
    """Within the block nothing comes through the connections that were open before it, and new ones reach the server.

    `settle` gives its clients time to connect through a proxy.
    """
    silent, ended = threading.Event(), threading.Event()

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError), socket.socket(socket.AF_UNIX) as server:
                server.connect(str(hidden))
                ways = {self.request: server, server: self.request}
                while not silent.is_set():
                    for source in select.select(list(ways), [], [], 0.1)[0]:
                        if not (piece := source.recv(CHUNK)):
                            return
                        ways[source].sendall(piece)
                ended.wait()

    with moved_socket(path, hidden):
        with Server(str(path), Handler) as server:
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}).start()
            settle()
            server.shutdown()
        silent.set()
        path.unlink(missing_ok=True)
    try:
        yield
    finally:
        ended.set()
