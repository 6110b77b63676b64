"""A real Valkey that refuses writes when a test says so, each refusal as it happens in use."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import redis
from farm_bench import until

from tasks.store.client import NO_WAITING
from workers.embedded import valkey
from workers.processes import ChildProcess


class RefusingValkey:
    """A server of its own on a private socket; each method refuses inside its block."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.socket = folder, valkey.socket_path(folder)
        self.url = valkey.redis_url(self.socket)
        self.server: ChildProcess = valkey.valkey_process(folder, self.socket, None)
        self.admin: Any = redis.Redis(unix_socket_path=str(self.socket), retry=NO_WAITING)

    def start(self) -> None:
        self.server.start()
        self.server.wait_ready(lambda: valkey.is_answering(self.socket), 20)

    def close(self) -> None:
        self.admin.close()
        self.server.stop(2)
        valkey.socket_path(self.folder).unlink(missing_ok=True)

    @contextmanager
    def full_disk(self) -> Iterator[None]:
        """The append-only file cannot grow: MISCONF."""
        assert self.server.pid is not None
        process = psutil.Process(self.server.pid)
        process.rlimit(psutil.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        until(lambda: refuses(self.admin))
        try:
            yield
        finally:
            process.rlimit(psutil.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    @contextmanager
    def full_memory(self) -> Iterator[None]:
        """`maxmemory` is less than what is stored: OOM."""
        self.admin.config_set("maxmemory", "1")
        until(lambda: refuses(self.admin))
        try:
            yield
        finally:
            self.admin.config_set("maxmemory", "0")

    @contextmanager
    def replica(self) -> Iterator[None]:
        """After a failover to another server, and until one back: READONLY."""
        self.admin.execute_command("REPLICAOF", "127.0.0.1", "1")
        try:
            yield
        finally:
            self.admin.execute_command("REPLICAOF", "NO", "ONE")

    @contextmanager
    def away(self) -> Iterator[None]:
        """Its socket is not where it was, and all connections are closed."""
        hidden = self.socket.with_suffix(".away")
        self.socket.rename(hidden)
        away: Any = redis.Redis(unix_socket_path=str(hidden), retry=NO_WAITING)
        away.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        try:
            yield
        finally:
            hidden.rename(self.socket)

    @contextmanager
    def silent(self) -> Iterator[None]:
        """It is stopped: connections stay open, and nothing answers."""
        assert self.server.pid is not None
        process = psutil.Process(self.server.pid)
        process.suspend()
        try:
            yield
        finally:
            process.resume()

    @property
    def refusals(self) -> Mapping[str, Callable[[], object]]:
        """By the words that a user reads."""
        return {
            "refuses: MISCONF": self.full_disk,
            "refuses: OOM": self.full_memory,
            "refuses: READONLY": self.replica,
            "does not answer": self.away,
        }


def refuses(client: redis.Redis) -> bool:
    """Whether a write is refused."""
    try:
        client.set("probe", "x" * 100)
    except redis.ResponseError:
        return True
    return False
