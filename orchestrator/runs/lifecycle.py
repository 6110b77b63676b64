"""What is done to a run of any kind from outside: list its failures, cancel it, delete it from its farm."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import redis
from kombu.exceptions import OperationalError

from orchestrator.farm import FarmUnavailable, workers
from orchestrator.farm.connection import (
    FarmConnection,
    connected,
    ping,
)
from orchestrator.farm.producer import delete_results, drop_taken, drop_waiting
from orchestrator.farm.retry import failed_tasks
from orchestrator.runs.folder import OutputFolder, run_id_of
from orchestrator.runs.kinds import kind_of
from orchestrator.runs.ownership import owned
from orchestrator.runs.status import is_locked, read_parked_state
from tasks.records import Failure
from tasks.store.keys import CANCELLED

log = logging.getLogger(__name__)
TIMEOUT_S = 60.0  # for the answers and calls in progress
POLL_S = 0.25


@contextmanager
def reach_farm_of(folder: Path) -> Iterator[FarmConnection]:
    """The farm of the run in an output folder, if it is up; `check` reports when an embedded one has ended."""
    _, kind = kind_of(folder)

    def check() -> None:
        kind.farm_address(folder)

    address = kind.farm_address(folder)
    ping(address)
    with connected(address, rules=False, check=check) as farm:
        yield farm


def failed_of(folder: Path) -> list[Failure]:
    """The failed tasks of a run, oldest first: from the farm while it is up, else from the folder."""
    parked = read_parked_state(OutputFolder(folder))
    run_id = run_id_of(folder)
    try:
        with reach_farm_of(folder) as farm:
            # A store that has lost the run has no failures; the folder has them.
            if farm.store.has_run(run_id):
                return failed_tasks(farm.store, run_id)
    except FarmUnavailable:
        pass
    return list(parked.failures) if parked else []


@dataclass(frozen=True)
class Cancellation:
    """How many messages were dropped, whether the driver still runs, and the tasks that workers still execute."""

    dropped: int
    locked: bool
    active: tuple[str, ...]


def cancel(
    farm: FarmConnection, folder: Path, run_id: str, pause: Callable[[float], None], timeout_s: float = TIMEOUT_S
) -> Cancellation:
    """Cancel a run, and wait until nothing works on it any more, `timeout_s` seconds at most.

    A farm that the run's driver started ends with it, and then there is nothing to wait for.
    """
    dropped, is_recorded, deadline = 0, False, time.monotonic() + timeout_s
    try:
        farm.store.put_metadata(run_id, CANCELLED, "1")
        is_recorded = True
        farm.store.notify(run_id)
        while True:
            farm.check()
            dropped += drop_waiting(farm.broker, run_id)
            locked, active = is_locked(folder), active_tasks(farm, run_id)
            if not (locked or active) or time.monotonic() > deadline:
                return Cancellation(dropped + drop_waiting(farm.broker, run_id), locked, tuple(active))
            pause(POLL_S)
    except (FarmUnavailable, redis.RedisError, OperationalError) as error:
        if not (is_recorded or isinstance(error, FarmUnavailable)):
            raise
        while is_locked(folder) and time.monotonic() < deadline:
            pause(POLL_S)
        return Cancellation(dropped, is_locked(folder), ())


def active_tasks(farm: FarmConnection, run_id: str) -> list[str]:
    """The tasks of a run that workers are executing, in words."""
    return [
        f"{line} ({report['worker']})"
        for report in workers.reports(farm)
        for task, line in zip(report.get("tasks") or [], workers.task_lines(report), strict=True)
        if task["arguments"][:1] == [run_id]
    ]


def delete_run(farm: FarmConnection, run_id: str, folder: Path = Path()) -> int:
    """Remove the run's messages, its records, the results that no other run has used, and what Celery keeps of it.

    Only for a run of which no worker executes a task; `folder` is its output folder, where that is known.  Returns the
    number of keys removed.
    """
    with owned(farm, run_id, folder, log.warning) as owner:
        owner.store.put_metadata(run_id, CANCELLED, "1")
        drop_waiting(owner.broker, run_id)
        drop_taken(owner.broker, run_id)
        return owner.store.delete_run(run_id) + delete_results(owner.app, run_id)
