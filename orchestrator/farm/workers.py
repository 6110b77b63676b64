"""The workers of a farm, their reports and pausing them; and the messages of a run in its broker."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping
from typing import Any, cast

import redis
from celery import Celery

from orchestrator.farm.connection import FarmConnection
from orchestrator.settings import SettingsError
from tasks.queues import QUEUES
from tasks.store.workers import WorkerRegistry

ANSWER_S = 2.0  # the longest wait for the answers of all


def start_hint(queue: str) -> str:
    """How to get a worker of a queue that has none, in words."""
    in_containers = "in containers see `docker compose ps --all`"
    return f"start one with `python -m workers {queue}`; {in_containers}"


def reports(farm: FarmConnection) -> list[dict[str, Any]]:
    """The report of each worker, by queue and name: of now, or of a few seconds ago.

    A worker that has not answered in time has the state "silent".
    """
    kept = {report["worker"]: report for report in WorkerRegistry(farm.store.redis).workers()}
    fresh = broadcast(farm, "whetstone_report", len(kept)) if kept else {}
    found = [{**report, **fresh.get(name, {"state": "silent"})} for name, report in kept.items()]
    return sorted(found, key=lambda report: (report["queue"], report["worker"]))


def paused(farm: FarmConnection) -> dict[str, float]:
    """Which queues and workers are paused, and since when in seconds of the epoch."""
    return WorkerRegistry(farm.store.redis).paused()


def set_paused(farm: FarmConnection, name: str, is_paused: bool) -> dict[str, str]:
    """Have a queue or a worker take no more tasks, now and after a restart, or take them again.

    It finishes the tasks that it has.  Returns the state of each worker that it concerns.
    """
    registry = WorkerRegistry(farm.store.redis)
    workers, there = {report["worker"]: report["queue"] for report in registry.workers()}, registry.paused()
    if is_paused or name not in there:
        full = [one for one in (*QUEUES, *workers) if name == one or (name not in QUEUES and name == one.split("@")[0])]
        if len(full) != 1:
            known = ", ".join([*QUEUES, *workers])
            raise SettingsError([f"no one queue or worker is called {name!r}; there are: {known}"])
        name = str(full[0])
    if not is_paused and name not in there:
        raise SettingsError([f"{name} is not paused; paused: {', '.join(sorted(there)) or 'nothing'}"])
    (registry.pause if is_paused else registry.resume)(name)
    answers = broadcast(farm, "whetstone_check_paused", len(workers)) if workers else {}
    concerned = [worker for worker, queue in sorted(workers.items()) if name in (worker, queue)]
    return {worker: answers.get(worker, {}).get("state", "silent") for worker in concerned}


def broadcast(farm: FarmConnection, command: str, count: int) -> dict[str, Any]:
    """The replies of the workers to a command, by worker name; `count` is how many are expected."""
    replies = farm.app.control.broadcast(command, reply=True, timeout=ANSWER_S, limit=count) or []
    return {name: answer for reply in replies for name, answer in reply.items() if isinstance(answer, Mapping)}


def task_line(task: Mapping[str, Any]) -> str:
    """A task that a worker is executing, in words."""
    arguments = [str(argument) for argument in task["arguments"]]
    what = str(task["name"]).partition(".")[2]
    if len(arguments) == 5:  # a stage of a candidate: run, plan, index, phase, attempt
        run, plan, index, phase, _ = arguments
        what += f" of {plan}{index} ({phase}) of {run}"
    elif arguments:
        what += f" of {arguments[0]}"
    return what if task["since"] is None else f"{what}, for {max(0.0, time.time() - task['since']):.0f} s"


# Messages.

UNACKED, UNACKED_INDEX = "unacked", "unacked_index"  # kombu's names
CELERYS_KEYS = ("celery-task-meta-", "celery-taskset-meta-")  # of a result, and of a chord's counters


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


def drop_taken(broker: redis.Redis, run_id: str) -> None:
    """Delete messages that a worker took and never acknowledged: only for a run of which no worker executes a task."""
    held = cast("dict[bytes, bytes]", broker.hgetall(UNACKED))
    if tags := [tag for tag, text in held.items() if _run_of(text, taken=True) == run_id]:
        broker.hdel(UNACKED, *tags)
        broker.zrem(UNACKED_INDEX, *tags)


def delete_results(app: Celery, run_id: str) -> int:
    """Remove all that Celery keeps of a run, whose id is in the keys.  Returns the number of keys removed."""
    client: redis.Redis = app.backend.client  # type: ignore[attr-defined]  # every result backend here is a Redis
    found = [key for prefix in CELERYS_KEYS for key in client.scan_iter(match=f"{prefix}{run_id}.*", count=1000)]
    for start in range(0, len(found), 500):
        client.unlink(*found[start : start + 500])
    return len(found)


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
