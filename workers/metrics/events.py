"""What Celery's events tell: how many tasks came to which state, and how long they took.

Labels are names of tasks that we know and states that Celery has, so no message can add a series.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram

from tasks.queues import TASKS

OTHER = "other"  # a task that is not ours, or one that was received before we listened
STATES = ("sent", "received", "started", "succeeded", "failed", "retried", "revoked", "rejected")
ENDS = frozenset({"succeeded", "failed", "revoked", "rejected"})
REMEMBERED = 20_000  # tasks under way whose names we know; about 250 bytes each
# A score takes a millisecond, an evaluation on a GPU a minute, the hard limit is half an hour.
SECONDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)


class TaskEvents:
    """Counts what `handle` is given, in a registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._tasks = Counter("whetstone_tasks", "Tasks by what became of them.", ("task", "state"), registry=registry)
        self._seconds = Histogram(
            "whetstone_task_seconds",
            "Seconds that a worker had a task in hand, of those that succeeded.",
            ("task",),
            buckets=SECONDS,
            registry=registry,
        )
        for task in (*TASKS, OTHER):
            for state in STATES:
                self._tasks.labels(task, state)  # 0 from the start, so that the first failure is seen as an increase
        self._names: OrderedDict[str, str] = OrderedDict()

    def handle(self, event: Mapping[str, Any]) -> None:
        """Take one event of a worker, or of whoever sent a task; any other is not ours."""
        kind, _, state = str(event.get("type", "")).partition("-")
        if kind != "task" or state not in STATES:
            return
        task = self._name(str(event.get("uuid", "")), event.get("name"), ended=state in ENDS)
        self._tasks.labels(task, state).inc()
        if state == "succeeded" and isinstance(runtime := event.get("runtime"), int | float):
            self._seconds.labels(task).observe(runtime)

    def _name(self, task_id: str, name: object, *, ended: bool) -> str:
        """The task's name, which only its first events carry."""
        known = self._names.get(task_id, OTHER)
        if isinstance(name, str):
            known = name if name in TASKS else OTHER
        if ended:
            self._names.pop(task_id, None)
        else:
            self._names[task_id] = known
            if len(self._names) > REMEMBERED:
                self._names.popitem(last=False)
        return known
