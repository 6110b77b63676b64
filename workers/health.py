"""Whether a worker is healthy, in two ways: by the heartbeat in the store, and by a ping through the broker.

`python -m workers.health NAME` exits with 0 when the worker of this name on this host has a heartbeat, which expires
within seconds when its loop stands still.  A worker that answers a ping has its consumer running.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping

import psutil
import redis
from celery import Celery
from kombu.exceptions import OperationalError

from tasks.store.address import broker_url, redis_url_of, store_url
from tasks.store.client import NO_WAITING, connect
from tasks.store.workers import WorkerRegistry

TIMEOUT_S = 3.0  # of the store
PING_S = 0.25


def main() -> None:
    node = f"{sys.argv[1]}@{socket.gethostname()}"
    try:
        sys.exit(0 if _registry(os.environ).has_report(node) else f"{node} has no recent heartbeat")
    except (redis.RedisError, OSError, ValueError) as error:
        sys.exit(f"{node}: {error}")


def free_name(queue: str, environment: Mapping[str, str]) -> str:
    """A name for a worker that was given none: its queue's, or QUEUE-PID where another worker of this host has that."""
    try:
        reports = _registry(environment).workers()
    except (redis.RedisError, OSError, ValueError):
        return queue
    pids = [int(report["pid"]) for report in reports if report["worker"] == f"{queue}@{socket.gethostname()}"]
    return f"{queue}-{os.getpid()}" if any(map(_is_other_worker, pids)) else queue


def worker_answers(redis_url: str, name: str) -> bool:
    with Celery("ping", broker=broker_url(redis_url), set_as_current=False) as app:
        try:
            return bool(app.control.ping(timeout=PING_S, limit=1, pattern=f"^{name}@", matcher="pcre"))
        except (OperationalError, redis.RedisError, OSError):
            return False


def _registry(environment: Mapping[str, str]) -> WorkerRegistry:
    return WorkerRegistry(connect(store_url(redis_url_of(environment)), NO_WAITING, timeout_s=TIMEOUT_S))


def _is_other_worker(pid: int) -> bool:
    """A killed worker's report outlives it, and a worker that restarted in its container has the same pid again."""
    try:
        return pid != os.getpid() and "workers" in psutil.Process(pid).cmdline()
    except psutil.Error:
        return False


if __name__ == "__main__":
    main()
