"""Whether Retry may be pressed, and what it then does: a task belongs to a run, and it is the run that goes on.

A message is never sent again.  The record of the run's plan says what is missing.  Where a process drives the run,
the failed candidates are dispatched under its eyes; where none does, `orchestrator retry` is started for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

from orchestrator.flower_ext.run_index import RunView
from tasks.queues import STAGE_TASKS


class Way(Enum):
    """How a run goes on."""

    DISPATCH = auto()  # what failed, for the process that drives the run to find done
    DRIVE = auto()  # all that is missing, by a process that we start


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
    if seen.name in STAGE_TASKS.values():
        raise Refused(409, f"task {task} has been retried already; run {seen.run} has gone on since")
    return seen.run  # the clustering, say: it has no record, and the run asks for it again


def way_on(run: str, views: Mapping[str, RunView], ours: Mapping[str, float]) -> Way:
    """How this run goes on; `ours` are the runs that we drive, and since when (seconds of the epoch).

    Raises: Refused.
    """
    view = views.get(run)
    if view is None:
        raise Refused(404, f"no run {run} is known here")
    if view.state == "finished":
        raise Refused(409, f"run {run} is finished")
    driven = view.state in ("running", "elsewhere")
    if driven and any(failed.at >= ours.get(run, 0.0) for failed in view.failed):
        return Way.DISPATCH
    if run in ours:
        raise Refused(409, f"run {run} is being retried from here already")
    if driven:
        where = "is at work" if view.state == "running" else "has no output folder that is seen from here"
        raise Refused(409, f"run {run} {where}, and nothing of it has failed")
    return Way.DRIVE


def may_retry(run: str, views: Mapping[str, RunView], ours: Mapping[str, float]) -> bool:
    try:
        way_on(run, views, ours)
    except Refused:
        return False
    return True
