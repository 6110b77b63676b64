"""Cancelling a run: its driver stops, its messages are dropped, what is at work on it ends; what was finished stays.

Forgetting a run: all that the farm's Redis keeps of it.  Its output folder is not touched.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import redis
from celery import Celery
from kombu.exceptions import OperationalError

from orchestrator.dispatch.messages import drop_taken, drop_waiting
from orchestrator.dispatch.producer import delete_results
from orchestrator.farm import workers
from orchestrator.farm.connection import FarmConnection, FarmUnavailable
from orchestrator.runs.status import is_locked
from tasks.store.keys import CANCELLED
from tasks.store.store import Store

PATIENCE_S = 60.0  # for the answers and calls in hand
POLL_S = 0.25
REASON = "cancelled by `orchestrator cancel`"


@dataclass(frozen=True)
class Cancelled:
    """How many messages were dropped, whether the driver is still there, and what workers still have in hand."""

    dropped: int
    held: bool
    at_work: tuple[str, ...]


def cancel(
    farm: FarmConnection, folder: Path, run_id: str, pause: Callable[[float], None], patience_s: float = PATIENCE_S
) -> Cancelled:
    """Cancel a run, and wait until nobody is at it any more, `patience_s` seconds at most.

    A farm that belongs to the run's driver goes down with it, and then nothing is left to wait for.
    """
    dropped, deadline = 0, time.monotonic() + patience_s
    try:
        farm.store.put_metadata(run_id, CANCELLED, "1")
        farm.store.notify(run_id)
        while True:
            farm.check()
            dropped += drop_waiting(farm.broker, run_id)
            held, busy = is_locked(folder), active_tasks(farm, run_id)
            if not (held or busy) or time.monotonic() > deadline:
                return Cancelled(dropped + drop_waiting(farm.broker, run_id), held, tuple(busy))
            pause(POLL_S)
    except (FarmUnavailable, redis.ConnectionError, redis.TimeoutError, OperationalError):
        while is_locked(folder) and time.monotonic() < deadline:
            pause(POLL_S)
        return Cancelled(dropped, is_locked(folder), ())


def active_tasks(farm: FarmConnection, run_id: str) -> list[str]:
    """What workers have in hand of a run, in words."""
    return [
        f"{said} ({report['worker']})"
        for report in workers.reports(farm)
        for task, said in zip(report.get("tasks") or [], workers.at_work(report), strict=True)
        if task["arguments"][:1] == [run_id]
    ]


def delete_run(app: Celery, broker: redis.Redis, store: Store, run_id: str) -> int:
    """Remove the run's messages, its records, the answers and verdicts that no other run has used, and what Celery
    keeps of it: for a run that no worker has in hand.

    Returns the number of keys removed.  Raises: redis.RedisError.
    """
    drop_waiting(broker, run_id)
    drop_taken(broker, run_id)
    return store.delete_run(run_id) + delete_results(app, run_id)
