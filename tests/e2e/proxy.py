"""A proxy that a test can cut or silence, and a socket out of reach."""

from __future__ import annotations

import os
import select
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import redis
from http_thread import http_server

CHUNK = 65536
Ways = dict[socket.socket, socket.socket]
"""Of one connection the client's socket and the server's, each with the other."""


class Proxy:
    """While `is_cut` it takes no connection.  `address` is a host and port, or the path of a Unix socket."""

    def __init__(self) -> None:
        self.address, self.is_cut, self.ended = "", False, threading.Event()
        self._open: list[Ways] = []
        self._silent: list[Ways] = []

    def cut(self) -> None:
        """Close all connections."""
        self.is_cut = True
        for ways in tuple(self._open):
            for one in ways:
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def silence(self) -> int:
        """The connections of now stay open, and nothing comes through them any more.  Returns how many they are."""
        self._silent = [*self._open]
        return len(self._silent)

    def copy(self, client: socket.socket, server: socket.socket) -> None:
        """Copy until one of them closes."""
        ways = {client: server, server: client}
        self._open.append(ways)
        try:
            while True:
                for source in select.select(list(ways), [], [])[0]:
                    piece = source.recv(CHUNK)
                    if ways in self._silent:
                        self.ended.wait()
                    if not piece:
                        return
                    ways[source].sendall(piece)
        finally:
            self._open.remove(ways)


@contextmanager
def running_proxy(behind: Path | int, front: Path | None = None) -> Iterator[Proxy]:
    """A proxy in front of the server at a Unix socket or a port, at a Unix socket itself or at a free port."""
    proxy = Proxy()

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            is_path = isinstance(behind, Path)
            with suppress(OSError), socket.socket(socket.AF_UNIX if is_path else socket.AF_INET) as server:
                if not proxy.is_cut:
                    server.connect(str(behind) if is_path else ("127.0.0.1", behind))
                    proxy.copy(self.request, server)

    with http_server(Handler, front) as url:
        proxy.address = url.removeprefix("http://").removeprefix("unix:")
        try:
            yield proxy
        finally:
            proxy.ended.set()
            proxy.cut()


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
