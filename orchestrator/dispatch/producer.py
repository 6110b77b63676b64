"""The orchestrator's Celery application: it sends, and reads results by their ids.

Celery's results otherwise listen for their tasks on a connection of their own, kept until the process ends, long
after the farm: the driver watches the store instead (see `evaluator`).

What Celery keeps of a run beside the store: results of single tasks, and the counters of chords.

Stages leave no results, since what they found is in the store.  Whatever else is sent for a run carries the run in its
id, and so in its key, and can be found again when the run is deleted.

One task outside a plan: sent, and asked after by its id.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from typing import Any

import redis
from celery import Celery
from celery.backends.redis import RedisBackend
from celery.states import READY_STATES

from tasks.store.address import ENVIRONMENT_VARIABLE, PASSWORD_VARIABLE
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
    app.conf.update(result_backend=f"{name}+{address}")
    return app


# Celery's names of its keys: a result's, and a chord's counters (its header is a group, or "taskset").
KEYS = ("celery-task-meta-", "celery-taskset-meta-")


def new_id(run_id: str) -> str:
    """An id for a task or a chord of a run.  Run ids have no dot in them."""
    return f"{run_id}.{uuid.uuid4().hex}"


def delete_results(app: Celery, run_id: str) -> int:
    """Remove all that Celery keeps of a run.  Returns the number of keys removed.  Raises: redis.RedisError."""
    client: redis.Redis = app.backend.client  # type: ignore[attr-defined]  # every result backend here is a Redis
    found = [key for prefix in KEYS for key in client.scan_iter(match=f"{prefix}{run_id}.*", count=1000)]
    for start in range(0, len(found), 500):
        client.unlink(*found[start : start + 500])
    return len(found)


def send(app: Celery, task: str, arguments: Sequence[Any]) -> str:
    """Send a task by name, whose first argument is the run's id; returns the task's id."""
    return str(app.send_task(task, args=list(arguments), task_id=new_id(arguments[0])).id)


def pop_result(app: Celery, task_id: str) -> tuple[str | None, Any]:
    """How a task ended and with what, or (None, None) while it has not; the end is told once, then forgotten."""
    meta = app.backend.get_task_meta(task_id)
    if meta["status"] not in READY_STATES:
        return None, None
    app.backend.forget(task_id)
    return meta["status"], meta["result"]
