"""Counting Celery's events: names that only the first event carries, times, and no series that a message could add."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry

from workers.metrics import collector
from workers.metrics.collector import TaskEvents


def counted(*told: dict[str, Any]) -> CollectorRegistry:
    registry = CollectorRegistry()
    task_events = TaskEvents(registry)
    for event in told:
        task_events.handle(event)
    return registry


def tasks(registry: CollectorRegistry, task: str, state: str) -> float | None:
    return registry.get_sample_value("whetstone_tasks_total", {"task": task, "state": state})


def test_a_task_is_followed_from_its_sending_to_its_end() -> None:
    registry = counted(
        {"type": "task-sent", "uuid": "1", "name": "gpu.answer"},
        {"type": "task-received", "uuid": "1", "name": "gpu.answer"},
        {"type": "task-started", "uuid": "1"},
        {"type": "task-succeeded", "uuid": "1", "runtime": 3.5},
        {"type": "worker-heartbeat", "hostname": "gpu@here"},
    )
    assert [tasks(registry, "gpu.answer", s) for s in ("sent", "received", "started", "succeeded")] == [1, 1, 1, 1]
    assert registry.get_sample_value("whetstone_task_seconds_sum", {"task": "gpu.answer"}) == 3.5
    bucket = {"task": "gpu.answer", "le": "2.5"}, {"task": "gpu.answer", "le": "5.0"}
    assert [registry.get_sample_value("whetstone_task_seconds_bucket", labels) for labels in bucket] == [0, 1]


def test_a_task_that_is_retried_keeps_its_name_until_it_ends() -> None:
    registry = counted(
        {"type": "task-received", "uuid": "1", "name": "openai.judge"},
        {"type": "task-retried", "uuid": "1"},
        {"type": "task-failed", "uuid": "1"},
        {"type": "task-failed", "uuid": "1"},
    )
    assert tasks(registry, "openai.judge", "retried") == 1
    assert tasks(registry, "openai.judge", "failed") == 1
    assert tasks(registry, collector.OTHER, "failed") == 1, "what has ended is forgotten"


def test_nobody_can_add_series_or_fill_the_memory(monkeypatch: Any) -> None:
    monkeypatch.setattr(collector, "REMEMBERED", 3)
    registry = counted(
        *({"type": "task-received", "uuid": str(i), "name": f"made.up.{i}"} for i in range(50)),
        *({"type": f"task-made-up-{i}", "uuid": "1"} for i in range(50)),
        {"type": "task-received", "uuid": "x", "name": ["no", "name"]},
        {"type": "task-succeeded", "uuid": "x", "runtime": "long"},
        {"type": None},
        {},
    )
    series = [sample for metric in registry.collect() for sample in metric.samples if sample.value]
    series = [sample for sample in series if sample.name.endswith("_total")]
    assert {tuple(sorted(sample.labels.items())) for sample in series} == {
        (("state", "received"), ("task", "other")),
        (("state", "succeeded"), ("task", "other")),
    }
