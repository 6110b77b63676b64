"""Whether a task or run may be retried, and how: a task belongs to a run, and it is the run that goes on.

A message is never sent again.  The run's records say what is missing.  Where a process drives the run, the failed tasks
are sent for it to find done; where none does, `orchestrator retry` is started for the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

from orchestrator.flower_ext.run_index import RunView
from tasks.queues import TASKS


class RetryMode(Enum):
    """How a run goes on."""

    SEND = auto()  # what failed is sent again, for the process that drives the run to find done
    DRIVE = auto()  # a process is started that does all that is missing


@dataclass(frozen=True)
class ObservedTask:
    """What Flower has seen of a task."""

    name: str
    state: str
    run: str


class RetryRejected(Exception):
    """It may not be retried.  `status` is HTTP's: 404 for what does not exist, 409 for what has not failed."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


def run_of_task(task: str, seen: ObservedTask | None, views: Mapping[str, RunView]) -> str:
    """The run to retry so that this task's work is done.  Raises: RetryRejected."""
    for view in views.values():
        if any(failed.task == task for failed in view.failed):
            return view.run
    if seen is None:
        raise RetryRejected(404, f"no task {task} is known here")
    if seen.state != "FAILURE":
        raise RetryRejected(409, f"task {task} has not failed: it is {seen.state}")
    if not seen.run:
        raise RetryRejected(409, f"task {task} does not belong to a run")
    if seen.name in TASKS and seen.name != "cpu.gather":
        raise RetryRejected(409, f"task {task} has been retried already; run {seen.run} has gone on since")
    return seen.run  # it has no record, and the run needs it no more


def retry_mode(run: str, views: Mapping[str, RunView], ours: Mapping[str, float]) -> RetryMode:
    """How this run goes on; `ours` are the runs that we drive, and since when (seconds of the epoch).

    Raises: RetryRejected.
    """
    view = views.get(run)
    if view is None:
        raise RetryRejected(404, f"no run {run} is known here")
    if view.problem:
        raise RetryRejected(409, view.problem)
    if view.state == "finished":
        raise RetryRejected(409, f"run {run} is finished")
    driven = view.state in ("running", "elsewhere")
    if driven and any(failed.at >= ours.get(run, 0.0) for failed in view.failed):
        return RetryMode.SEND
    if run in ours:
        raise RetryRejected(409, f"run {run} is being retried from here already")
    if driven:
        where = "is at work" if view.state == "running" else "has no output folder that is seen from here"
        raise RetryRejected(409, f"run {run} {where}, and nothing of it has failed")
    return RetryMode.DRIVE


def may_retry(run: str, views: Mapping[str, RunView], ours: Mapping[str, float]) -> bool:
    try:
        retry_mode(run, views, ours)
    except RetryRejected:
        return False
    return True
