"""Which runs may go on from the page, and which task belongs to which of them."""

from __future__ import annotations

import dataclasses
from typing import Literal

import pytest

from orchestrator.flower_ext.retry_policy import (
    ObservedTask,
    RetryMode,
    RetryRejected,
    may_retry,
    retry_mode,
    run_of_task,
)
from orchestrator.flower_ext.run_index import RunView
from orchestrator.runs.status import RunStatus
from tasks.failure import Failure

FAILED = Failure("demo", "g2_child", "3", "g2_child3_mut", "reflect", "CallError: 500", "t1", 1, 100.0, 1)


def view(state: Literal["running", "stopped", "parked", "finished"] = "parked", *failed: Failure) -> RunView:
    status = RunStatus(
        "demo", "evolve", "outputs/demo", state, "generations", 2, 8, {}, "", 1000, 40, 0.5, 0.0, 0.0, "", ()
    )
    return RunView("demo", status, 40, 1000, 0.5, failed)


def test_a_failed_task_belongs_to_the_run_that_records_it() -> None:
    assert run_of_task("t1", None, {"demo": view("parked", FAILED)}) == "demo"


def test_a_failed_task_without_a_record_belongs_to_the_run_that_it_names() -> None:
    assert run_of_task("t2", ObservedTask("cpu.gather", "FAILURE", "demo"), {"demo": view()}) == "demo"


@pytest.mark.parametrize(
    ("seen", "status", "told"),
    [
        (None, 404, "no task t2 is known"),
        (ObservedTask("openai.reflect", "STARTED", "demo"), 409, "has not failed: it is STARTED"),
        (ObservedTask("gpu.cluster", "FAILURE", "demo"), 409, "retried already; run demo has gone on since"),
        (ObservedTask("openai.reflect", "FAILURE", "demo"), 409, "retried already; run demo has gone on since"),
        (ObservedTask("celery.chain", "FAILURE", ""), 409, "does not belong to a run"),
    ],
)
def test_other_tasks_are_refused(seen: ObservedTask | None, status: int, told: str) -> None:
    with pytest.raises(RetryRejected, match=told) as refused:
        run_of_task("t2", seen, {"demo": view()})
    assert refused.value.status == status


def test_a_run_that_nobody_drives_is_driven_from_here() -> None:
    for state in ("parked", "stopped"):
        assert retry_mode("demo", {"demo": view(state)}, {}) is RetryMode.DRIVE
        assert may_retry("demo", {"demo": view(state)}, {})


def test_what_failed_in_a_run_at_work_is_dispatched_for_its_driver() -> None:
    assert retry_mode("demo", {"demo": view("running", FAILED)}, {}) is RetryMode.SEND
    assert retry_mode("demo", {"demo": view("running", FAILED)}, {"demo": 99.0}) is RetryMode.SEND
    assert retry_mode("demo", {"demo": dataclasses.replace(view("parked", FAILED), status=None)}, {}) is RetryMode.SEND


@pytest.mark.parametrize(
    ("found", "ours", "status", "told"),
    [
        (None, {}, 404, "no run demo is known"),
        (view("running"), {}, 409, "is at work, and nothing of it has failed"),
        (view("finished", FAILED), {}, 409, "is finished"),
        (view("parked", FAILED), {"demo": 101.0}, 409, "is being retried from here already"),
        (view("running", FAILED), {"demo": 101.0}, 409, "is being retried from here already"),
        (dataclasses.replace(view(), status=None), {}, 409, "output folder"),
    ],
)
def test_other_runs_are_refused(found: RunView | None, ours: dict[str, float], status: int, told: str) -> None:
    views = {"demo": found} if found else {}
    with pytest.raises(RetryRejected, match=told) as refused:
        retry_mode("demo", views, ours)
    assert refused.value.status == status
    assert not may_retry("demo", views, ours)
