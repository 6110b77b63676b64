"""Counting Celery's events: names that only the first event carries, times, and no series that a message could add."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry

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
