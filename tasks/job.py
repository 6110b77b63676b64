"""A job: one piece of work of any kind of run, done once for its content key.

A message is `(run, key, attempt)`.  What the job needs beyond that is its `JobSpec`, which the driver has put into
the store under the key; the result is kept there under the same key.  A result that another run has computed under
an equal key is taken as it is, so a key covers everything that determines the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tasks.common import logs
from tasks.store.keys import JOBS
from tasks.store.plans import JobContext
from tasks.store.store import Store
from tasks.task import FailureLocation, RecordedTask, current_store, run_once

Message = tuple[str, str, int]


@dataclass(frozen=True)
class Job:
    """A job in progress: its run, its arguments, and access to the results of earlier jobs."""

    store: Store
    run: str
    key: str
    arguments: Mapping[str, Any]

    @property
    def call_id(self) -> str:
        """Names the job's call to an endpoint."""
        return f"{self.run}-{self.key.replace(':', '-')}"

    def results(self, keys: Sequence[str]) -> list[dict[str, Any]]:
        """Results of earlier jobs, in the order of `keys`."""
        found = self.store.shared(self.run, keys)
        if missing := [key for key in keys if key not in found]:
            raise LookupError(f"{missing[0]} is not in the store")
        return [found[key] for key in keys]


class JobTask(RecordedTask):
    """The base of the job tasks: a failure is recorded under the job's key."""

    abstract = True

    def location(self, run: str, key: str, attempt: int) -> FailureLocation:
        spec = current_store().job_spec(run, key)
        return FailureLocation(run, JOBS, key, key if spec is None else spec.label, attempt)


def run_job(
    message: Message,
    work: Callable[[Job], Mapping[str, Any]],
    usage: Callable[[Mapping[str, Any]], Mapping[str, float]] = lambda result: {},
) -> None:
    """Do `work` unless its result is there, and keep what it returns under the job's key.

    `usage` says what a result has used; it is counted for the run together with the result, once.
    """
    run_id, key, attempt = message
    store = current_store()

    def do(found: JobContext) -> Mapping[str, Any]:
        with logs.fields(child=found.spec.label):
            return work(Job(store, run_id, key, found.spec.arguments))

    def keep(result: dict[str, Any]) -> None:
        store.put_shared(run_id, key, result, usage(result))

    run_once(store, key, attempt, lambda: store.job_context(run_id, key), do, keep)
    store.notify(run_id)
