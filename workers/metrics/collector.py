"""The metrics: at each scrape what the store holds (queues, workers, GPUs, runs, cost), and counts of Celery's events.

One series for each queue, each live worker and each of the latest runs, up to a bound.  The labels of events are names
of tasks that we know and states that Celery has, so no message can add a series.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import redis
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tasks.openai.budget import TOKENS
from tasks.queues import QUEUES, TASKS
from tasks.store.keys import MODEL, STATUS
from tasks.store.registry import WorkerRegistry
from tasks.store.store import Store

RUNS = 20  # at most: those with the latest status
WORKERS = 200  # at most, by name
RUN_STATES = ("running", "finished", "parked", "stopped")
FITNESS = ("best", "mean", "best_ever")


class MetricBuilder:
    """Makes the metrics, each with its help and labels in one place."""

    def __init__(self) -> None:
        self.made: dict[str, Metric] = {}

    def gauge(self, name: str, about: str, labels: Mapping[str, str], value: float) -> None:
        self._add(GaugeMetricFamily, name, about, labels, value)

    def counter(self, name: str, about: str, labels: Mapping[str, str], value: float) -> None:
        self._add(CounterMetricFamily, name, about, labels, value)

    def _add(self, kind: Any, name: str, about: str, labels: Mapping[str, str], value: float) -> None:
        metric = self.made.setdefault(name, kind(f"whetstone_{name}", about, labels=list(labels)))
        metric.add_metric(list(labels.values()), value)  # type: ignore[attr-defined]  # of both kinds


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
            self._queues(family)
            self._workers(family)
            self._runs(family)
            is_up = True
        except redis.RedisError:
            family, is_up = MetricBuilder(), False
        family.gauge("up", "1 while the Redis or Valkey of the farm answers.", {}, is_up)
        yield from family.made.values()

    def _queues(self, family: MetricBuilder) -> None:
        pipe = self.broker.pipeline(transaction=False)
        for name in QUEUES:
            pipe.llen(name)
        pipe.hlen("unacked")
        *waiting, held = pipe.execute()
        paused = WorkerRegistry(self.store.redis).paused()
        for name, depth in zip(QUEUES, waiting, strict=True):
            family.gauge("queue_messages", "Messages that wait for a worker.", {"queue": name}, depth)
            family.gauge("queue_paused", "1 while the queue is paused.", {"queue": name}, name in paused)
        family.gauge("unacked_messages", "Messages of all queues that workers have taken and not finished.", {}, held)

    def _workers(self, family: MetricBuilder) -> None:
        reports = WorkerRegistry(self.store.redis).workers()[:WORKERS]
        for queue in QUEUES:
            here = [report for report in reports if report.get("queue") == queue]
            labels = {"queue": queue}
            family.gauge("workers", "Workers with a recent heartbeat.", labels, len(here))
            slots, tasks = sum(r["slots"] for r in here), sum(len(r["tasks"]) for r in here)
            family.gauge("worker_slots", "Tasks that these workers can have in hand.", labels, slots)
            family.gauge("worker_tasks", "Tasks that these workers have in hand.", labels, tasks)
        for report in reports:
            if isinstance(target := report.get("target"), dict):
                self._target(family, str(report["worker"]), target)

    def _target(self, family: MetricBuilder, worker: str, target: Mapping[str, Any]) -> None:
        labels = {"worker": worker}
        for name, about, key in (
            ("target_requests_in_flight", "Requests that the worker has with its target server.", "in_flight"),
            ("target_tokens_per_second", "Tokens that it generates, over the last seconds.", "tokens_a_second"),
        ):
            if key in target:
                family.gauge(name, about, labels, target[key])
        gpu = target.get("gpu")
        if not isinstance(gpu, dict):
            return
        labels |= {"gpu": f"{gpu.get('index', '')} {gpu.get('name', '')}".strip()}
        for name, about, key in (
            ("gpu_memory_used_bytes", "Memory in use on the worker's GPU, whoever uses it.", "used"),
            ("gpu_memory_bytes", "Memory of the worker's GPU.", "total"),
            ("gpu_utilization_ratio", "Share of the last moment in which the GPU computed.", "utilization"),
        ):
            if isinstance(gpu.get(key), int | float):
                family.gauge(name, about, labels, gpu[key])

    def _runs(self, family: MetricBuilder) -> None:
        statuses = {run: json.loads(text) for run in self.store.run_ids() if (text := self.store.metadata(run, STATUS))}
        latest = sorted(statuses, key=lambda run: statuses[run].get("updated", 0.0), reverse=True)[:RUNS]
        for run in latest:
            self._progress(family, run, statuses[run])
            self._usage(family, run, statuses[run])

    def _progress(self, family: MetricBuilder, run: str, status: Mapping[str, Any]) -> None:
        labels = {"run": run}
        for state in RUN_STATES:
            is_state = status.get("state") == state
            family.gauge("run_state", "1 for the state that the run is in.", {**labels, "state": state}, is_state)
        unit = {**labels, "unit": str(status.get("unit", ""))}
        family.gauge("run_done", "Generations, examples or other units that are done.", unit, status.get("done", 0))
        family.gauge("run_planned", "Units that the run is to do.", unit, status.get("total", 0))
        about = "Tasks of the run that have failed for good and wait for a retry."
        family.gauge("run_failed_tasks", about, labels, len(self.store.failures(run)))
        about = "Seconds since 1970 when the run's driver last published its status."
        family.gauge("run_updated_timestamp_seconds", about, labels, status.get("updated", 0.0))
        for of in FITNESS:
            if (value := status.get(of)) is not None:
                about = "Fitness of the population (best, mean) and of all individuals so far (best_ever)."
                family.gauge("run_fitness", about, {**labels, "of": of}, value)

    def _usage(self, family: MetricBuilder, run: str, status: Mapping[str, Any]) -> None:
        usage, spending, labels = self.store.usage(run), self.store.ledger(run).spending(), {"run": run}
        if status.get("is_priced", True):
            family.counter("cost_usd", "US dollars that answered calls cost.", labels, spending.spent)
        about = "US dollars that calls under way can cost at most."
        family.gauge("cost_under_way_usd", about, labels, spending.in_flight)
        about = "US dollars that calls cost at most whose answers were not heard."
        family.gauge("cost_unconfirmed_usd", about, labels, spending.unconfirmed)
        about = "US dollars that the run may spend; 0 is no limit."
        family.gauge("budget_usd", about, labels, status.get("budget_usd", 0.0))
        family.counter("calls", "Tries of calls to the endpoint.", labels, usage.get("requests", 0.0))
        about = (
            "Tokens of the endpoint by kind (cached of prompt, reasoning of completion), and generated by the target."
        )
        for name, count in sorted(usage.items()):
            kind, at, model = name.partition("@")
            if at and kind in TOKENS:
                family.counter("tokens", about, {**labels, "model": model, "kind": kind}, count)
        generated = {**labels, "model": self.store.metadata(run, MODEL) or "", "kind": "generated"}
        family.counter("tokens", about, generated, usage.get("target", 0.0))


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
            "Seconds that a worker had a task in hand, of those that succeeded.",
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
