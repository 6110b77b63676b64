"""What failed in a run: listed, selected by what a person calls it, and sent again.

A failed message is not sent again as it was: what the candidate or the job still misses is sent as a new message of
the attempt that its record has.  A driver that waits for the record goes on waiting and finds it done.  Without a
driver, the results stay in the store until the run is started again.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from celery import Celery

from orchestrator.farm.evaluator import send_chord
from orchestrator.farm.jobs import send_again
from orchestrator.settings import SettingsError
from tasks.records import Failure
from tasks.store.keys import JOBS
from tasks.store.store import Store


def failed_tasks(store: Store, run_id: str) -> list[Failure]:
    """What the latest attempt at each record has failed at, oldest first."""
    failures = store.failures(run_id)
    attempts = {record: store.attempt(run_id, record) for record in {failure.record for failure in failures}}
    return [failure for failure in failures if failure.attempt == attempts[failure.record]]


def select_failures(failures: Sequence[Failure], names: Sequence[str]) -> list[Failure]:
    """The failures that the names mean, all of them without names."""
    for name in names:
        if not any(failure.is_called(name) for failure in failures):
            listed = ", ".join(f"{failure.node} ({failure.task})" for failure in failures)
            others = f"these have failed: {listed}" if listed else "no task has failed"
            raise SettingsError([f"no failed task is called {name!r}; {others}"])
    return [failure for failure in failures if not names or any(map(failure.is_called, names))]


def retry_failed(app: Celery, store: Store, run_id: str, names: Sequence[str] = ()) -> list[Failure]:
    """Send failed tasks again, all of a run or those of these names (see `Failure.is_called`).

    `app` is any application that sends to the farm.  Returns what was sent: of several processes that retry the same
    task at once, one sends it.
    """
    selected = select_failures(failed_tasks(store, run_id), names)
    owned = [failure for failure in selected if store.forget_failure(failure)]
    by_record = sorted(owned, key=lambda failure: failure.record)
    for record, group in itertools.groupby(by_record, key=lambda failure: failure.record):
        _send(app, store, run_id, record, [failure.name for failure in group])
    if owned:
        store.notify(run_id)
    return owned


def _send(app: Celery, store: Store, run_id: str, record: str, names: list[str]) -> None:
    if record == JOBS:
        send_again(app, store, run_id, names)
        return
    plan, records = store.plan(run_id, record), store.stages(run_id, record)
    attempt, limit = store.attempt(run_id, record), store.stage_limit(run_id)
    candidates = [plan.candidate(int(name)) for name in names]
    send_chord(app, store, run_id, record, candidates, records, attempt, limit)
