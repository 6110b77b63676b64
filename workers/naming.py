"""A name for a worker that was given none: its queue's, unless another worker on this host goes by it."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

import psutil
import redis

from tasks.redis_url import redis_url_of, store_url
from tasks.roster import Roster

PATIENCE_S = 2.0


def free_name(queue: str, environment: Mapping[str, str]) -> str:
    """The part of the node name before the @.  A broker that is away, which a worker waits for, knows of nobody."""
    try:
        client = redis.Redis.from_url(
            store_url(redis_url_of(environment)), socket_timeout=PATIENCE_S, socket_connect_timeout=PATIENCE_S
        )
        reports = Roster(client).workers()
    except (redis.RedisError, OSError, ValueError):
        return queue
    taken = [int(report["pid"]) for report in reports if report["worker"] == f"{queue}@{socket.gethostname()}"]
    return f"{queue}-{os.getpid()}" if any(map(_is_another_worker, taken)) else queue


def _is_another_worker(pid: int) -> bool:
    """A killed worker's report outlives it; one that was started anew in its container even has the same pid."""
    try:
        return pid != os.getpid() and "workers" in psutil.Process(pid).cmdline()
    except psutil.Error:
        return False
