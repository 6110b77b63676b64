"""The metrics of queues, workers, target servers and GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import redis

from tasks.queues import QUEUES
from tasks.store.store import Store
from tasks.store.workers import WorkerRegistry
from workers.metrics.builder import MetricBuilder

WORKERS = 200  # at most, by name


def add_queues(family: MetricBuilder, broker: redis.Redis, store: Store) -> None:
    pipe = broker.pipeline(transaction=False)
    for name in QUEUES:
        pipe.llen(name)
    pipe.hlen("unacked")
    *waiting, held = pipe.execute()
    paused = WorkerRegistry(store.redis).paused()
    for name, depth in zip(QUEUES, waiting, strict=True):
        family.gauge("queue_messages", "Messages that wait for a worker.", {"queue": name}, depth)
        family.gauge("queue_paused", "1 while the queue is paused.", {"queue": name}, name in paused)
    family.gauge("unacked_messages", "Messages of all queues that workers have taken and not finished.", {}, held)


def add_workers(family: MetricBuilder, _broker: redis.Redis, store: Store) -> None:
    reports = WorkerRegistry(store.redis).workers()[:WORKERS]
    for queue in QUEUES:
        here = [report for report in reports if report.get("queue") == queue]
        labels = {"queue": queue}
        family.gauge("workers", "Workers with a recent heartbeat.", labels, len(here))
        slots, tasks = sum(r["slots"] for r in here), sum(len(r["tasks"]) for r in here)
        family.gauge("worker_slots", "Tasks that these workers can execute at once.", labels, slots)
        family.gauge("worker_tasks", "Tasks that these workers are executing.", labels, tasks)
    for report in reports:
        if isinstance(target := report.get("target"), dict):
            _target(family, str(report["worker"]), target)


def _target(family: MetricBuilder, worker: str, target: Mapping[str, Any]) -> None:
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
        ("gpu_memory_used_bytes", "Memory in use on the worker's GPU, by all processes.", "used"),
        ("gpu_memory_bytes", "Memory of the worker's GPU.", "total"),
        ("gpu_utilization_ratio", "Share of the last moment in which the GPU computed.", "utilization"),
    ):
        if isinstance(gpu.get(key), int | float):
            family.gauge(name, about, labels, gpu[key])
