"""What is done to a run of any kind from outside: list and retry its failures, cancel it, delete it from its farm.

A failed message is not sent again as it was: what the candidate or the job still misses is sent as a new message of
the attempt that its record has.  A driver that waits for the record goes on waiting and finds it done.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path

import redis
from celery import Celery
from kombu.exceptions import OperationalError

from orchestrator.farm import FarmUnavailable, workers
from orchestrator.farm.connection import FarmConnection, reach
from orchestrator.farm.work import send_chord, send_job
from orchestrator.runs.folder import OutputFolder, is_locked, run_file
from orchestrator.runs.kinds import kind_of
from orchestrator.runs.session import owned
from orchestrator.runs.status import read_parked_state
from orchestrator.settings import SettingsError
from tasks.records import Failure
from tasks.store.keys import CANCELLED, JOBS
from tasks.store.store import Store

log = logging.getLogger(__name__)
TIMEOUT_S = 60.0  # for the answers and calls in progress
POLL_S = 0.25


def reach_farm_of(folder: Path) -> AbstractContextManager[FarmConnection]:
    """The farm of the run in an output folder, if it is up; `check` reports when an embedded one has ended."""
    kind = kind_of(folder)
    return reach(kind.farm_address(folder), lambda: kind.farm_address(folder))


def failed_of(folder: Path) -> list[Failure]:
    """The failed tasks of a run, oldest first: from the farm while it is up, else from the folder."""
    parked = read_parked_state(OutputFolder(folder))
    run_id = run_file(folder)["id"]
    with suppress(FarmUnavailable), reach_farm_of(folder) as farm:
        if farm.store.has_run(run_id):  # where the store has lost the run, the folder has its failures
            return farm.store.failed_tasks(run_id)
    return list(parked.failures) if parked else []


def select_failures(failures: Sequence[Failure], names: Sequence[str]) -> list[Failure]:
    """The failures that the names mean (`Failure.is_called`), all of them without names."""
    for name in names:
        if not any(failure.is_called(name) for failure in failures):
            listed = ", ".join(f"{failure.node} ({failure.task})" for failure in failures)
            others = f"these have failed: {listed}" if listed else "no task has failed"
            raise SettingsError([f"no failed task is called {name!r}; {others}"])
    return [failure for failure in failures if not names or any(map(failure.is_called, names))]


def retry_failed(app: Celery, store: Store, run_id: str, names: Sequence[str] = ()) -> list[Failure]:
    """Send failed tasks again, all or those of these names, and return those that no other process has sent."""
    selected = select_failures(store.failed_tasks(run_id), names)
    owned = [failure for failure in selected if store.forget_failure(failure)]
    by_record = sorted(owned, key=lambda failure: failure.record)
    for record, group in itertools.groupby(by_record, key=lambda failure: failure.record):
        attempt, failed = store.attempt(run_id, record), [failure.name for failure in group]
        if record == JOBS:
            specs = [(key, spec) for key in failed if (spec := store.job_spec(run_id, key))]
            for key, spec in specs:
                send_job(app, store, run_id, key, spec, attempt)
        else:
            plan = store.plan(run_id, record)
            candidates = [plan.candidate(int(name)) for name in failed]
            send_chord(app, store, run_id, record, candidates, store.stages(run_id, record), attempt)
    if owned:
        store.notify(run_id)
    return owned


@dataclass(frozen=True)
class Cancellation:
    """How many messages were dropped, whether the driver still runs, and the tasks that workers still execute."""

    dropped: int
    locked: bool
    active: tuple[str, ...]


def cancel(farm: FarmConnection, folder: Path, run_id: str, timeout_s: float = TIMEOUT_S) -> Cancellation:
    """Cancel a run, and wait until nothing works on it any more, `timeout_s` seconds at most."""
    dropped, is_recorded, deadline = 0, False, time.monotonic() + timeout_s
    try:
        farm.store.put_metadata(run_id, CANCELLED, "1")
        is_recorded = True
        farm.store.notify(run_id)
        while True:
            farm.check()
            dropped += workers.drop_waiting(farm.broker, run_id)
            locked, active = is_locked(folder), active_tasks(farm, run_id)
            if not (locked or active) or time.monotonic() > deadline:
                return Cancellation(dropped + workers.drop_waiting(farm.broker, run_id), locked, tuple(active))
            time.sleep(POLL_S)  # a lock and the workers on other hosts tell of no end
    except (FarmUnavailable, redis.RedisError, OperationalError) as error:
        if not (is_recorded or isinstance(error, FarmUnavailable)):
            raise
        while is_locked(folder) and time.monotonic() < deadline:
            time.sleep(POLL_S)  # a lock and the workers on other hosts tell of no end
        return Cancellation(dropped, is_locked(folder), ())


def active_tasks(farm: FarmConnection, run_id: str) -> list[str]:
    """The tasks of a run that workers are executing, in words."""
    return [
        f"{workers.task_line(task)} ({report['worker']})"
        for report in workers.reports(farm)
        for task in report.get("tasks") or []
        if task["arguments"][:1] == [run_id]
    ]


def delete_run(farm: FarmConnection, run_id: str, folder: Path = Path()) -> int:
    """Remove a run of which no worker executes a task from its farm; returns the number of keys removed."""
    with owned(farm, run_id, folder, log.warning) as owner:
        owner.store.put_metadata(run_id, CANCELLED, "1")
        workers.drop_waiting(owner.broker, run_id)
        workers.drop_taken(owner.broker, run_id)
        return owner.store.delete_run(run_id) + workers.delete_results(owner.app, run_id)
