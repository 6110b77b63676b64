"""What every task of ours is beyond Celery's: tried again when its worker dies, and its failure on record."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from billiard.exceptions import WorkerLostError
from celery import Task
from celery.exceptions import Ignore
from celery.signals import task_failure

from tasks import context
from tasks.secret import redact
from tasks.store.keys import CANCELLED
from tasks.store.store import Store


class PoisonMessage(Exception):
    """The worker died each time that it was at this task, as far as anybody can tell of the task's doing."""


class FarmTask(Task):  # type: ignore[type-arg]  # generic in the stubs alone
    """A task whose worker dies is tried again, soon, and not without end.

    Celery counts the deaths of a pool's process.  When the whole worker dies its messages come back by themselves, and
    nobody would count: so a task that comes back is counted when it begins, and taken off when a worker that leaves in
    order gives it back (`workers/celery_ext/broker.py`).
    """

    abstract = True
    max_retries = 5
    default_retry_delay = 1  # seconds

    def before_start(self, task_id: str, args: Any, kwargs: Any) -> None:
        """Raises: Poison."""
        if not (args and (self.request.delivery_info or {}).get("redelivered")):
            return
        deaths = context.store().count_failure(str(args[0]), task_id, 1)
        if deaths > self.max_retries:
            raise PoisonMessage(f"{deaths} times the worker died or was lost while it was at this")


class Cancelled(Ignore):
    """The run was cancelled: what is at work on it ends, and that is neither a success nor a failure."""


def go_on(store: Store, run_id: str) -> None:
    """Between two answers or calls.  Raises: Cancelled when there is no need for another."""
    if store.metadata(run_id, CANCELLED):
        raise Cancelled(f"run {run_id} was cancelled")


@dataclass(frozen=True)
class FailureLocation:
    """Where the failure of a task belongs: in which record of which run, under what name, and how it is found there."""

    run: str
    record: str
    name: str
    found_by: dict[str, Any]


class RecordedTask(FarmTask):
    """A task whose failure goes into a record in the store, where whoever waits for it looks for the rest too."""

    abstract = True
    ignore_result = True  # one message less to send, and no result to clear away

    def place(self, *message: Any) -> FailureLocation:
        """Where the failure of the task with these arguments belongs."""
        raise NotImplementedError  # abstract: StageTask and JobTask say it

    def on_failure(self, exc: Exception, task_id: str, args: Any, kwargs: Any, einfo: Any) -> None:
        place = self.place(*args)
        store = context.store()
        what = f"{place.record}:{place.name}:{self.name}"
        failure = {
            **place.found_by,
            "name": self.name,
            "task": task_id,
            "error": redact(f"{type(exc).__name__}: {exc}"),
            "tries": store.count_failure(place.run, what, self.request.retries + 1),
            "at": round(time.time(), 3),
        }
        store.put_failure(place.run, place.record, place.name, failure)
        store.notify(place.run)


@task_failure.connect
def record_lost(sender: Any, task_id: str, exception: Exception, args: Any, kwargs: Any, einfo: Any, **_: Any) -> None:
    """A process that dies of its task each time cannot say so: after the last try its worker does."""
    if isinstance(sender, RecordedTask) and isinstance(exception, WorkerLostError):
        sender.on_failure(exception, task_id, args, kwargs, einfo)
