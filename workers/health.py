"""A name for a worker that was given none: its queue's, unless another worker on this host goes by it.

`python -m workers.health NAME`: exit 0 when the worker of this name on this host takes messages, for containers.

It asks the worker's own heartbeat, which is gone within seconds when the loop of the worker stands still.

Whether workers are there: a worker that answers a ping has its consumer running and takes tasks.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping, Sequence

import psutil
import redis
from celery import Celery
from kombu.exceptions import OperationalError

from tasks.store.address import broker_url, redis_url_of, store_url
from tasks.store.client import connect
from tasks.store.registry import WorkerRegistry

PATIENCE_S = 2.0


def free_name(queue: str, environment: Mapping[str, str]) -> str:
    """The part of the node name before the @.  A broker that is away, which a worker waits for, knows of nobody."""
    try:
        client = connect(store_url(redis_url_of(environment)), retries=0, timeout_s=PATIENCE_S)
        reports = WorkerRegistry(client).workers()
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


ANSWER_TIMEOUT_S = 3.0


def main() -> None:
    node = f"{sys.argv[1]}@{socket.gethostname()}"
    try:
        client = connect(store_url(redis_url_of(os.environ)), retries=0, timeout_s=ANSWER_TIMEOUT_S)
        found = WorkerRegistry(client).is_alive(node)
    except (redis.RedisError, OSError, ValueError) as error:
        sys.exit(f"{node}: {error}")
    sys.exit(0 if found else f"{node} has told nothing lately")


if __name__ == "__main__":
    main()

PING_S = 0.25


def missing_workers(redis_url: str, names: Sequence[str]) -> list[str]:
    """Those of `names` (the part of a node name before the @) that do not answer a ping in time."""
    with Celery("ping", broker=broker_url(redis_url), set_as_current=False) as app:
        try:
            replies = app.control.ping(
                timeout=PING_S, limit=len(names), pattern=f"^({'|'.join(names)})@", matcher="pcre"
            )
        except OperationalError:
            return list(names)
    answered = {node.partition("@")[0] for reply in replies or [] for node in reply}
    return [name for name in names if name not in answered]


def worker_answers(redis_url: str, name: str) -> bool:
    """Whether this one does."""
    return not missing_workers(redis_url, [name])
