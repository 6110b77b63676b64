"""One task outside a plan: sent, and asked after by its id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from celery import Celery
from celery.states import READY_STATES

from orchestrator.dispatch.results import new_id


def send(app: Celery, task: str, arguments: Sequence[Any]) -> str:
    """Send a task by name, whose first argument is the run's id; returns the task's id."""
    return str(app.send_task(task, args=list(arguments), task_id=new_id(arguments[0])).id)


def task_end(app: Celery, task_id: str) -> tuple[str | None, Any]:
    """How a task ended and with what, or (None, None) while it has not; the end is told once, then forgotten."""
    meta = app.backend.get_task_meta(task_id)
    if meta["status"] not in READY_STATES:
        return None, None
    app.backend.forget(task_id)
    return meta["status"], meta["result"]
