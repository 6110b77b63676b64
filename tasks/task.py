"""What every task of the farm is beyond Celery's: tried again when its worker dies, done once, its failure recorded.

A job is one piece of work of any kind of run.  Its message is `(run, key, attempt)`; the driver has put its `JobSpec`
into the store under the key, and its result is kept there under the same key.  A result that another run has computed
is taken as it is, so a key covers everything that determines the result.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Literal, NamedTuple, TypeVar

import redis
from billiard.exceptions import WorkerLostError
from celery import Task
from celery.exceptions import Ignore, Reject
from celery.signals import task_failure

from tasks.common import logs
from tasks.common.validation import parse_json
from tasks.records import Failure, JobSpec
from tasks.store.address import ENVIRONMENT_VARIABLE, redis_url_of
from tasks.store.client import StoreUnusable, hold_lock, refusal_of
from tasks.store.keys import CANCELLED, JOBS
from tasks.store.plans import WorkState
from tasks.store.store import Store, open_store

log = logging.getLogger(__name__)
SUSPECTED_S = 5.0
MOST_RETURNS = 20  # of a task whose worker always dies later
T = TypeVar("T")


@cache
def current_store() -> Store:
    """The store of this process."""
    if not os.environ.get(ENVIRONMENT_VARIABLE):
        raise RuntimeError(f"{ENVIRONMENT_VARIABLE} is not set: it names the Redis or Valkey of the farm")
    return open_store(redis_url_of(os.environ))


def store_of(run_id: str) -> Store:
    """The store, for a task of this run."""
    if not current_store().has_run(run_id):
        raise discard(f"no run {run_id!r} in the store")
    return current_store()


def discard(reason: str) -> Ignore:
    """For a task to raise when its message is wrong: the task ends without result or failure."""
    log.warning("dropped a message: %s", reason)
    return Ignore(reason)


def is_store_error(error: BaseException) -> bool:
    """Whether an error is the store's, which refuses or does not answer, and not a task's."""
    return isinstance(error, redis.RedisError) and (isinstance(error, StoreUnusable) or refusal_of(error) is not None)


@contextmanager
def rejected_without_store() -> Iterator[None]:
    """A task that the store has failed has not failed itself: its message returns."""
    try:
        yield
    except redis.RedisError as error:
        if not is_store_error(error):
            raise
        raise Reject(str(error), requeue=True) from None


class GiveBack(Exception):
    """This worker cannot do the task now, for no fault of the task: its message returns, for any worker."""


class Cancelled(Ignore):
    """The run was cancelled: its tasks end, and that is neither a success nor a failure."""


def raise_if_cancelled(store: Store, run_id: str) -> None:
    """For a long task, between two answers or calls."""
    if store.metadata(run_id, CANCELLED):
        raise Cancelled(f"run {run_id} was cancelled")


class FarmTask(Task):  # type: ignore[type-arg]  # generic in the stubs alone
    """A task whose worker dies is tried again, soon, and a limited number of times.

    Celery counts the deaths of a pool process.  When the whole worker dies, all that it had in hand comes back, without
    a count.  So a task that comes back is counted when it begins, until it has ended or run for `SUSPECTED_S`; and from
    the second time on these begin one after the other.  So the one that a worker dies of at once is counted further
    and fails, and what ran beside it is not.
    """

    abstract = True
    max_retries = 3  # after a death of the worker; an error is not tried again, and calls count their own tries
    default_retry_delay = 1  # seconds
    card: Literal["", "serves", "computes"] = ""
    """What the task needs the card of a gpu worker for: a server on it, or its own computation."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        is_back = args and (self.request.delivery_info or {}).get("redelivered")
        with rejected_without_store(), self._suspected(str(args[0])) if is_back else nullcontext():
            try:
                return super().__call__(*args, **kwargs)
            except GiveBack as error:
                raise Reject(str(error), requeue=True) from None

    @contextmanager
    def _suspected(self, run_id: str) -> Iterator[None]:
        store, task, turn, is_over = current_store(), self.request.id or "", ExitStack(), threading.Lock()
        if store.failure_count(run_id, task) > 0:
            turn.enter_context(hold_lock(store.redis, f"back:{self.request.hostname}"))

        def clear() -> None:
            if is_over.acquire(blocking=False):
                with suppress(redis.RedisError):
                    turn.close()
                    store.count_failure(run_id, task, -1)

        with turn:
            deaths, returns = (store.count_failure(run_id, what, 1) for what in (task, f"{task}:returns"))
            if deaths > self.max_retries or returns > MOST_RETURNS:
                raise RuntimeError(f"{returns} times the worker died or was lost while it ran this task")
            timer = threading.Timer(SUSPECTED_S, clear)
            timer.daemon = True
            timer.start()
            try:
                yield
            finally:
                timer.cancel()
                clear()


class FailureLocation(NamedTuple):
    """Where the failure of a task is recorded, by the fields of `Failure`."""

    run: str
    record: str
    name: str
    node: str
    attempt: int


class RecordedTask(FarmTask):
    """A task whose result and failure are records in the store, where the driver of the run reads both."""

    abstract = True
    ignore_result = True  # one message less to send, and no result to delete

    def location(self, *message: Any) -> FailureLocation:
        """Where the failure of the task with these arguments is recorded."""
        raise NotImplementedError  # abstract: StageTask and JobTask define it

    def on_failure(self, exc: Exception, task_id: str, args: Any, kwargs: Any, einfo: Any) -> None:
        if is_store_error(exc):
            raise Reject(str(exc), requeue=True)
        place, store = self.location(*args), current_store()
        tried = f"{place.record}:{place.name}:{self.name}"
        failure = Failure(
            run=place.run,
            record=place.record,
            name=place.name,
            node=place.node,
            stage=self.name.split(".")[-1],
            error=logs.redact(f"{type(exc).__name__}: {exc}"),
            task=task_id,
            tries=store.count_failure(place.run, tried, self.request.retries + 1),
            at=round(time.time(), 3),
            attempt=place.attempt,
        )
        store.put_failure(failure)
        store.notify(place.run)


def run_once(
    store: Store,
    lock: str,
    attempt: int,
    find: Callable[[], tuple[WorkState, T]],
    work: Callable[[T], Mapping[str, Any]],
    keep: Callable[[dict[str, Any]], None],
) -> None:
    """Do `work` with what it found, unless its result is recorded, and have `keep` record it, with the seconds it took.

    Of several that hold the same `lock`, one works; the others wait, and find its result.
    """
    with hold_lock(store.redis, lock):
        try:
            state, found = find()
        except KeyError as error:
            raise discard(str(error.args[0])) from None  # a recorded failure would bring a deleted run back
        if state.done:
            return
        if state.cancelled:
            raise Cancelled(lock)
        if state.attempt != attempt:
            raise Ignore(f"attempt {attempt} has been replaced by attempt {state.attempt}")
        started = time.monotonic()
        result = dict(work(found))
        result["seconds"] = round(time.monotonic() - started, 3)
        keep(result)
    log.info("done in %.3f s", result["seconds"])


@task_failure.connect
def record_lost(sender: Any, task_id: str, exception: Exception, args: Any, kwargs: Any, einfo: Any, **_: Any) -> None:
    """A process that dies of its task cannot record it: after the last try its worker does."""
    if isinstance(sender, RecordedTask) and isinstance(exception, WorkerLostError):
        sender.on_failure(exception, task_id, args, kwargs, einfo)


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

    def context(self, name: str, kind: type[T]) -> T:
        """What the jobs of the run have in common, as the driver has put it into the store under this name."""
        text = self.store.metadata(self.run, name)
        if text is None:
            raise discard(f"no {name} {self.run!r} in the store")
        found: T = _read(kind, text)  # type: ignore[arg-type]  # a class is hashable
        return found

    def results(self, keys: Sequence[str]) -> list[dict[str, Any]]:
        """Results of earlier jobs, in the order of `keys`."""
        found = self.store.shared(self.run, keys)
        if missing := [key for key in keys if key not in found]:
            raise LookupError(f"{missing[0]} is not in the store")
        return [found[key] for key in keys]


@lru_cache(maxsize=2)
def _read(kind: Any, text: str) -> Any:
    return parse_json(kind, text)


class JobTask(RecordedTask):
    """The base of the job tasks: a failure is recorded under the job's key."""

    abstract = True

    def location(self, run: str, key: str, attempt: int) -> FailureLocation:
        spec = current_store().job_spec(run, key)
        return FailureLocation(run, JOBS, key, key if spec is None else spec.label, attempt)


def run_job(
    message: tuple[str, str, int],
    work: Callable[[Job], Mapping[str, Any]],
    usage: Callable[[Mapping[str, Any]], Mapping[str, float]] = lambda result: {},
) -> None:
    """Do `work` unless its result is there, and keep what it returns, with what it has used, under the job's key."""
    run_id, key, attempt = message
    store = current_store()

    def do(spec: JobSpec) -> Mapping[str, Any]:
        with logs.fields(child=spec.label):
            return work(Job(store, run_id, key, spec.arguments))

    def keep(result: dict[str, Any]) -> None:
        store.put_shared(run_id, key, result, usage(result))

    run_once(store, key, attempt, lambda: store.job_state(run_id, key), do, keep)
    store.notify(run_id)
