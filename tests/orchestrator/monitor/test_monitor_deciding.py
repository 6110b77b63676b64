"""Which runs may go on from the page, and which task belongs to which of them."""

from __future__ import annotations

import dataclasses
from typing import Literal

import pytest

from orchestrator.monitor.deciding import Refused, Seen, check_run, may_retry, run_of_task
from orchestrator.monitor.survey import FailedTask, RunView
from orchestrator.runs.standing import Standing

FAILED = FailedTask("t1", "g2_child3_mut", "reflect", "CallError: 500", 1)


def view(state: Literal["running", "stopped", "parked", "finished"] = "parked") -> RunView:
    standing = Standing("demo", "outputs/demo", state, 2, 8, 0.5, 0.6, 20.0, 0.9, 1000, 40, 0.5, ())
    return RunView("demo", standing, 40, 1000, 0.5, (FAILED,) if state == "parked" else ())


def test_a_failed_task_belongs_to_the_run_that_records_it() -> None:
    assert run_of_task("t1", None, {"demo": view()}) == "demo"


def test_a_failed_task_without_a_record_belongs_to_the_run_that_it_names() -> None:
    assert run_of_task("t2", Seen("gpu.cluster", "FAILURE", "demo"), {"demo": view()}) == "demo"


@pytest.mark.parametrize(
    ("seen", "status", "told"),
    [
        (None, 404, "no task t2 is known"),
        (Seen("openai.reflect", "STARTED", "demo"), 409, "has not failed: it is STARTED"),
        (Seen("openai.reflect", "FAILURE", "demo"), 409, "run demo has gone on since"),
        (Seen("celery.chain", "FAILURE", ""), 409, "does not belong to a run"),
    ],
)
def test_other_tasks_are_refused(seen: Seen | None, status: int, told: str) -> None:
    with pytest.raises(Refused, match=told) as refused:
        run_of_task("t2", seen, {"demo": view()})
    assert refused.value.status == status


def test_a_parked_and_a_stopped_run_may_go_on() -> None:
    for state in ("parked", "stopped"):
        assert check_run("demo", {"demo": view(state)}, ()).run == "demo"
        assert may_retry("demo", {"demo": view(state)}, ())


@pytest.mark.parametrize(
    ("found", "at_work", "status", "told"),
    [
        (None, (), 404, "no run demo is known"),
        (view("running"), (), 409, "is at work"),
        (view("finished"), (), 409, "is finished"),
        (view("parked"), ("demo",), 409, "is being retried from here already"),
        (dataclasses.replace(view(), standing=None), (), 409, "output folder"),
    ],
)
def test_other_runs_are_refused(found: RunView | None, at_work: tuple[str, ...], status: int, told: str) -> None:
    views = {"demo": found} if found else {}
    with pytest.raises(Refused, match=told) as refused:
        check_run("demo", views, at_work)
    assert refused.value.status == status
    assert not may_retry("demo", views, at_work)
