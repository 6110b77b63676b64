"""Events that Celery sends pass; forged ones are dropped, and so are forged fields."""

from __future__ import annotations

import math
from typing import Any

import pytest

from orchestrator.flower_ext.event_check import LARGEST_WORKERS, EventCheck

HEARTBEAT = {
    "type": "worker-heartbeat", "hostname": "gpu@host", "timestamp": 1e9, "local_received": 1e9, "utcoffset": -1,
    "pid": 7, "clock": 12, "freq": 2.0, "active": 0, "processed": 3, "loadavg": [0.1, 0.2, 3],
    "sw_ident": "py-celery", "sw_ver": "5.7.0", "sw_sys": "Linux",
}  # fmt: skip
RECEIVED = {
    "type": "task-received", "hostname": "gpu@host", "timestamp": 1e9, "uuid": "u", "name": "gpu.answer",
    "args": "run=demo", "kwargs": "{}", "root_id": "u", "parent_id": None, "retries": 0, "eta": None, "expires": None,
}  # fmt: skip


@pytest.fixture
def taken() -> list[dict[str, Any]]:
    return []


@pytest.fixture
def check(taken: list[dict[str, Any]]) -> EventCheck:
    return EventCheck(taken.append)


@pytest.mark.parametrize("event", [HEARTBEAT, RECEIVED])
def test_an_event_of_celery_passes_unchanged(
    check: EventCheck, taken: list[dict[str, Any]], event: dict[str, Any]
) -> None:
    check(event)
    assert taken == [event]


@pytest.mark.parametrize(
    "forged",
    [
        {**HEARTBEAT, "freq": "often"}, {**HEARTBEAT, "freq": math.nan}, {**HEARTBEAT, "freq": -1},
        {**HEARTBEAT, "hostname": ["a"]}, {**HEARTBEAT, "hostname": ""}, {**HEARTBEAT, "hostname": "x" * 10_000},
        {**HEARTBEAT, "loadavg": "<script>"}, {**HEARTBEAT, "active": "many"}, {**HEARTBEAT, "timestamp": "now"},
        {**HEARTBEAT, "timestamp": math.inf}, {**HEARTBEAT, "sw_ident": {"a": 1}}, {**HEARTBEAT, "type": "worker-x"},
        {**RECEIVED, "uuid": {}}, {**RECEIVED, "args": ["a"]}, {**RECEIVED, "runtime": "long"}, {"type": 3}, {},
        {**RECEIVED, "args": "x" * 200_000}, {**RECEIVED, "type": "task-custom"},
    ],
)  # fmt: skip
def test_a_forged_event_is_dropped(check: EventCheck, taken: list[dict[str, Any]], forged: dict[str, Any]) -> None:
    check(forged)
    assert taken == []


def test_a_field_that_celery_does_not_send_is_dropped(check: EventCheck, taken: list[dict[str, Any]]) -> None:
    check({**HEARTBEAT, "heartbeats": "x", "event": None, "_fields": []})
    assert taken == [HEARTBEAT]


def test_the_number_of_workers_is_limited(check: EventCheck, taken: list[dict[str, Any]]) -> None:
    for number in range(LARGEST_WORKERS + 10):
        check({**HEARTBEAT, "hostname": f"w{number}"})
    check({**HEARTBEAT, "hostname": "w0"})
    assert len(taken) == LARGEST_WORKERS + 1
