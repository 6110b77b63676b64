"""Forgetting a run: all that the farm's Redis keeps of it.  Its output folder is not touched."""

from __future__ import annotations

import redis
from celery import Celery

from orchestrator.dispatch.messages import drop_taken, drop_waiting
from orchestrator.dispatch.results import delete_results
from tasks.store import Store


def delete_run(app: Celery, broker: redis.Redis, store: Store, run_id: str) -> int:
    """Remove the run's messages, its records, the answers and verdicts that no other run has used, and what Celery
    keeps of it: for a run that no worker has in hand.

    Returns the number of keys removed.  Raises: redis.RedisError.
    """
    drop_waiting(broker, run_id)
    drop_taken(broker, run_id)
    return store.delete_run(run_id) + delete_results(app, run_id)
