"""A worker that was asked to go is gone in time, also when its broker is not there to be told.

Celery's heart announces a worker's leaving, and tries for ever to reach a broker that has died: a worker whose farm is
gone would never end.

A pool of threads that keeps hard time limits, and that a cold shutdown does not wait for.

Celery's own ignores time limits, and waits for every running task, whatever the shutdown.  A thread cannot be ended;
it can only be asked.  So a task that is over its limit is told off at once, as a killed process would be: its failure
is on record, its message acknowledged, its place free.  Its thread gets an exception raised in it, which it meets
when it comes back from whatever it waits for; what it still says is not listened to.

On a cold shutdown the threads are left behind and the consumer gives their messages back; `python -m workers` then
ends the process.  A warm shutdown waits.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

from celery import signals
from celery.concurrency.base import apply_target
from celery.concurrency.thread import ApplyResult, TaskPool  # type: ignore[attr-defined]  # not in the stubs
from celery.exceptions import Ignore
from celery.utils.log import get_logger
from celery.worker import state

SHUTDOWN_S = 30.0  # soft shutdown and the end of a target server, and as much again
EXIT_STATUS = 70  # as sysexits.h has it for an end that was not in order


def set_deadline(**_: Any) -> None:
    """From now on the process has `SHUTDOWN_S` seconds."""
    timer = threading.Timer(SHUTDOWN_S, os._exit, (EXIT_STATUS,))
    timer.daemon = True
    timer.start()


def install() -> None:
    """Set the deadline whenever a worker of this process is asked to shut down, in whatever way."""
    signals.worker_shutting_down.connect(set_deadline, weak=False, dispatch_uid="whetstone-deadline")


logger = get_logger(__name__)

LOOK_EVERY_S = 0.5


class TaskTimeout(Ignore):
    """Raised in the thread of a task that is over its limit; the worker has told of its failure already."""


class Job:
    """One task in a thread. `over` is called when it is not done `limit_s` seconds after it began; None is no limit."""

    def __init__(self, limit_s: float | None, over: Callable[[bool, float], None] | None) -> None:
        self.future: Future[None]
        self.abandoned = False
        self._limit_s, self._over = limit_s, over
        self._lock = threading.Lock()
        self._thread: int | None = None
        self._deadline: float | None = None

    def run(self, target: Callable[..., Any], args: Any, kwargs: Any, callback: Any, accept: Any) -> None:
        """The task, in its thread."""
        with self._lock:
            self._thread = threading.get_ident()
            self._deadline = None if self._limit_s is None else time.monotonic() + self._limit_s
        apply_target(target, args, kwargs, lambda result: self._end(callback, result), accept)

    def is_over(self, now: float) -> bool:
        with self._lock:
            return self._thread is not None and self._deadline is not None and now > self._deadline

    def abandon(self) -> None:
        """Tell of its failure, and have its thread meet an exception; nothing for a task that has just ended."""
        with self._lock:
            if self._thread is None:
                return
            self.abandoned = True
            raise_in(self._thread, TaskTimeout)
            self._thread = None
        if self._over is not None and self._limit_s is not None:
            self._over(False, self._limit_s)

    def _end(self, callback: Callable[[Any], None], result: Any) -> None:
        with self._lock:
            self._thread = None
        if not self.abandoned:
            callback(result)


class ThreadPool(TaskPool):
    """Used as `--pool custom` with CELERY_CUSTOM_WORKER_POOL="workers.celery_ext.threads:ThreadPool"."""

    executor: ThreadPoolExecutor

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.jobs: set[Job] = set()

    def register_with_event_loop(self, hub: Any) -> None:
        hub.call_repeatedly(LOOK_EVERY_S, self.end_overdue)

    def on_apply(
        self,
        target: Callable[..., Any],
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        callback: Callable[..., Any] | None = None,
        accept_callback: Callable[..., Any] | None = None,
        timeout: float | None = None,
        timeout_callback: Callable[[bool, float], None] | None = None,
        **_: Any,
    ) -> ApplyResult:
        job = Job(timeout, timeout_callback)
        self.jobs.add(job)
        job.future = self.executor.submit(job.run, target, args, kwargs, callback, accept_callback)
        job.future.add_done_callback(lambda _: self.jobs.discard(job))
        return ApplyResult(job.future)

    def end_overdue(self) -> None:
        """Abandon what is over its limit; a fresh set of threads then takes what comes."""
        now = time.monotonic()
        overdue = [job for job in tuple(self.jobs) if not job.abandoned and job.is_over(now)]
        for job in overdue:
            try:
                job.abandon()
            except Exception as error:  # the loop goes on, whatever keeps the failure from being told
                logger.error("a task that is over its limit could not be told off: %r", error)
        if overdue:
            self.executor.shutdown(wait=False)
            self.executor = ThreadPoolExecutor(max_workers=self.limit)

    def on_stop(self) -> None:
        if not state.should_terminate:
            wait([job.future for job in tuple(self.jobs) if not job.abandoned])
        self.executor.shutdown(wait=False, cancel_futures=True)

    def terminate_job(self, pid: int, signal: Any = None) -> None:
        """A thread cannot be ended: it is left behind."""


def raise_in(thread: int, error: type[BaseException]) -> None:
    """Have `error` raised in another thread, at the next step of Python that it makes."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(error))
