"""Whether Retry may be pressed: a task belongs to a run, and it is the run that goes on.

A message is never sent again.  The record of its plan says what is missing, and the run's own retry dispatches
that: the failed stage, what comes after it, and whatever else was cut off.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from orchestrator.monitor.survey import RunView
from tasks.plan import QUEUE_OF

_STAGES = frozenset(f"{queue}.{stage}" for stage, queue in QUEUE_OF.items())


@dataclass(frozen=True)
class Seen:
    """What Flower has seen of a task."""

    name: str
    state: str
    run: str


class Refused(Exception):
    """It may not be retried.  `status` is HTTP's: 404 for what is not there, 409 for what is not so."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


def run_of_task(task: str, seen: Seen | None, views: Mapping[str, RunView]) -> str:
    """The run to retry so that this task's work is done.  Raises: Refused."""
    for view in views.values():
        if any(failed.task == task for failed in view.failed):
            return view.run
    if seen is None:
        raise Refused(404, f"no task {task} is known here")
    if seen.state != "FAILURE":
        raise Refused(409, f"task {task} has not failed: it is {seen.state}")
    if not seen.run:
        raise Refused(409, f"task {task} does not belong to a run")
    if seen.name in _STAGES:
        raise Refused(409, f"task {task} failed in an earlier dispatch; run {seen.run} has gone on since")
    return seen.run  # the clustering, say: it has no record, and the run asks for it again


def check_run(run: str, views: Mapping[str, RunView], at_work: Collection[str]) -> RunView:
    """The run, when it may go on.  Raises: Refused."""
    view = views.get(run)
    if view is None:
        raise Refused(404, f"no run {run} is known here")
    if run in at_work:
        raise Refused(409, f"run {run} is being retried from here already")
    if view.state == "elsewhere":
        raise Refused(409, f"the output folder of run {run} is not among those that are seen from here")
    if view.state == "running":
        raise Refused(409, f"run {run} is at work; what failed can be retried when it has parked")
    if view.state == "finished":
        raise Refused(409, f"run {run} is finished")
    return view


def may_retry(run: str, views: Mapping[str, RunView], at_work: Collection[str]) -> bool:
    try:
        check_run(run, views, at_work)
    except Refused:
        return False
    return True
