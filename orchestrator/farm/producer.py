"""Sending to a farm: the orchestrator's Celery application, and a run's messages in the broker.

Celery's results otherwise listen for their tasks on a connection of their own, kept until the process ends, long
after the farm.  The driver of a run reads the store instead, and tasks leave no results.  What Celery keeps for a run
all the same (the counters of chords) carries the run's id in its key, and is deleted with the run.
"""

from __future__ import annotations

import base64
import json
import os
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

import redis
from celery import Celery
from celery.backends.redis import RedisBackend
from kombu.exceptions import OperationalError

from tasks.queues import QUEUES
from tasks.store.address import ENVIRONMENT_VARIABLE, PASSWORD_VARIABLE
from tasks.store.client import waiting_of
from tasks.store.store import Store
from workers.app import create_app


class NoListenBackend(RedisBackend):
    """Celery's results on Redis, without listening for them."""

    def on_task_call(self, producer: Any, task_id: str) -> None:
        return

    def add_pending_result(self, result: Any, weak: bool = False, start_drainer: bool = True) -> Any:
        return result

    def remove_pending_result(self, result: Any) -> Any:
        return result


def make_sender(redis_url: str) -> Celery:
    """An application that sends to the farm at this address, whatever the environment says of another one."""
    here = {ENVIRONMENT_VARIABLE: redis_url, PASSWORD_VARIABLE: "", f"{PASSWORD_VARIABLE}_FILE": ""}
    app = create_app({**os.environ, **here})
    name = f"{NoListenBackend.__module__}:{NoListenBackend.__qualname__}"
    address = str(app.conf.result_backend).removeprefix("redis+")
    # `submit` tries again, and looks meanwhile at whether the farm still runs.
    app.conf.update(
        result_backend=f"{name}+{address}",
        result_backend_transport_options={"retry_policy": {"max_retries": 0}},
        broker_transport_options={**app.conf.broker_transport_options, "max_retries": 0},
        task_publish_retry=False,
    )
    return app


def submit(app: Celery, store: Store, send: Callable[[], object]) -> None:
    """Send messages; a broker that refuses them, or does not answer, is waited for as the store is.

    `send` is called again from its start then: the work of a message that was sent twice is done once.
    """

    def reconnect(_: object) -> None:
        # After a failover an open connection is one to the server that has become a replica.
        app.backend.client.connection_pool.disconnect()  # type: ignore[attr-defined]  # every backend here is a Redis
        with suppress(redis.RedisError, OperationalError), app.producer_pool.acquire(block=True) as producer:
            producer.channel.client.connection_pool.disconnect()  # type: ignore[union-attr]  # a kombu channel for Redis

    waiting_of(store.redis).call_with_retry(send, reconnect)


# Celery's names of its keys: a result's, and a chord's counters (its header is a group, or "taskset").
KEYS = ("celery-task-meta-", "celery-taskset-meta-")


def new_id(run_id: str) -> str:
    """An id for a task or a chord of a run.  Run ids have no dot in them."""
    return f"{run_id}.{uuid.uuid4().hex}"


def delete_results(app: Celery, run_id: str) -> int:
    """Remove all that Celery keeps of a run.  Returns the number of keys removed."""
    client: redis.Redis = app.backend.client  # type: ignore[attr-defined]  # every result backend here is a Redis
    found = [key for prefix in KEYS for key in client.scan_iter(match=f"{prefix}{run_id}.*", count=1000)]
    for start in range(0, len(found), 500):
        client.unlink(*found[start : start + 500])
    return len(found)


UNACKED, UNACKED_INDEX = "unacked", "unacked_index"  # kombu's names


def count_messages(broker: redis.Redis, run_id: str) -> int:
    """How many messages of the run wait in a queue or are held by a worker."""
    waiting = [_run_of(raw) for queue in QUEUES for raw in cast("list[bytes]", broker.lrange(queue, 0, -1))]
    taken = [_run_of(text, taken=True) for text in cast("list[bytes]", broker.hvals(UNACKED))]
    return [*waiting, *taken].count(run_id)


def drop_waiting(broker: redis.Redis, run_id: str) -> int:
    """Take the run's messages out of the queues.  Returns how many there were."""
    dropped = 0
    for queue in QUEUES:
        for raw in cast("list[bytes]", broker.lrange(queue, 0, -1)):
            if _run_of(raw) == run_id:
                dropped += broker.lrem(queue, 1, cast(str, raw))
    return dropped


def drop_taken(broker: redis.Redis, run_id: str) -> int:
    """Delete messages that a worker took and never acknowledged: only for a run of which no worker executes a task.

    Returns how many there were.
    """
    held = cast("dict[bytes, bytes]", broker.hgetall(UNACKED))
    tags = [tag for tag, text in held.items() if _run_of(text, taken=True) == run_id]
    if tags:
        broker.hdel(UNACKED, *tags)
        broker.zrem(UNACKED_INDEX, *tags)
    return len(tags)


def _run_of(line: bytes | str, *, taken: bool = False) -> str | None:
    """The run of a message: the first of its task's arguments.  None for a message that is not Whetstone's."""
    try:
        message = json.loads(line)[0] if taken else json.loads(line)
        body = message["body"]
        if message["properties"].get("body_encoding") == "base64":
            body = base64.b64decode(body)
        return str(json.loads(body)[0][0])
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError):
        return None
