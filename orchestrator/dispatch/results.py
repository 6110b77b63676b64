"""What Celery keeps of a run beside the store: results of single tasks, and the counters of chords.

Stages leave no results, since what they found is in the store.  Whatever else is sent for a run carries the run in its
id, and so in its key, and can be found again when the run is deleted.
"""

from __future__ import annotations

import uuid

import redis
from celery import Celery

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
