"""The metrics: at each scrape what the store holds (queues, workers, GPUs, runs, cost), and counts of Celery's events.

One series for each queue, each live worker and each of the latest runs, up to a bound.  The labels of events are names
of tasks that we know and states that Celery has, so no message can add a series.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import redis
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from tasks.queues import TASKS
from tasks.store.store import Store
from workers.metrics import farm, runs
from workers.metrics.builder import MetricBuilder

SOURCES: tuple[Callable[[MetricBuilder, redis.Redis, Store], None], ...] = (
    farm.add_queues,
    farm.add_workers,
    runs.add_runs,
)
"""What a scrape calls, in the order of the output; each adds metrics from the broker and the store."""


@dataclass(eq=False)
class FarmCollector(Collector):
    """`broker` holds the queues, `store` everything else; neither waits long for a server that is away."""

    broker: redis.Redis
    store: Store

    def describe(self) -> Iterable[Metric]:
        """Nothing to say beforehand: a registry asks, and the store may be away then."""
        return []

    def collect(self) -> Iterator[Metric]:
        family = MetricBuilder()
        try:
            for add in SOURCES:
                add(family, self.broker, self.store)
            is_up = True
        except redis.RedisError:
            family, is_up = MetricBuilder(), False
        family.gauge("up", "1 while the Redis or Valkey of the farm answers.", {}, is_up)
        yield from family.made.values()


OTHER = "other"  # a task that is not ours, or one that was received before we listened
TASK_STATES = ("sent", "received", "started", "succeeded", "failed", "retried", "revoked", "rejected")
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
            "Duration of successful tasks, in seconds.",
            ("task",),
            buckets=SECONDS,
            registry=registry,
        )
        for task in (*TASKS, OTHER):
            for state in TASK_STATES:
                self._tasks.labels(task, state)  # 0 from the start, so that the first failure is seen as an increase
        self._names: OrderedDict[str, str] = OrderedDict()

    def handle(self, event: Mapping[str, Any]) -> None:
        """Take one event of a worker, or of the sender of a task; others are ignored."""
        kind, _, state = str(event.get("type", "")).partition("-")
        if kind != "task" or state not in TASK_STATES:
            return
        task = self._name(str(event.get("uuid", "")), event.get("name"), ended=state in ENDS)
        self._tasks.labels(task, state).inc()
        if state == "succeeded" and isinstance(runtime := event.get("runtime"), int | float):
            if not 0 <= runtime < math.inf:
                return  # a sum with it would be no number from then on
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
