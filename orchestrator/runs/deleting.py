"""Forgetting a run: all that the farm's Redis keeps of it.  Its output folder is not touched."""

from __future__ import annotations

from celery import Celery

from orchestrator.dispatch.results import delete_results
from tasks.store import Store


def delete_run(app: Celery, store: Store, run_id: str) -> int:
    """Remove the run's records, the answers and verdicts that no other run has used, and what Celery keeps of it.

    Messages of the run that still lie in a queue are dropped by whoever takes them, since their run is unknown.
    Returns the number of keys removed.  Raises: redis.RedisError.
    """
    return store.delete_run(run_id) + delete_results(app, run_id)
