"""A pool of threads with hard time limits, for workers whose tasks wait for servers; and a time limit on shutdown.

Celery's own thread pool ignores time limits, and waits for every running task in any kind of shutdown.  A thread
cannot be killed, so a task over its limit is abandoned: its failure is recorded, its message acknowledged and its
slot freed.  An exception is raised in its thread when its current call returns; a late result is discarded.  On a cold
shutdown the consumer returns the messages, and `python -m workers` ends the process.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

from billiard.einfo import ExceptionInfo
from celery import signals
from celery.concurrency.base import apply_target
from celery.concurrency.thread import ApplyResult, TaskPool  # type: ignore[attr-defined]  # not in the stubs
from celery.exceptions import Ignore
from celery.utils.log import get_logger
from celery.worker import state

SHUTDOWN_S = 30.0  # twice what a soft shutdown and the end of a target server take
EXIT_STATUS = 70  # EX_SOFTWARE of sysexits.h
CHECK_EVERY_S = 0.5

logger = get_logger(__name__)


def limit_shutdown() -> None:
    """End a worker `SHUTDOWN_S` seconds after it was asked to: Celery tries without end to reach a broker that died."""

    def start_timer(**_: Any) -> None:
        timer = threading.Timer(SHUTDOWN_S, os._exit, (EXIT_STATUS,))
        timer.daemon = True
        timer.start()

    signals.worker_shutting_down.connect(start_timer, weak=False)


class TaskTimeout(Ignore):
    """Raised in the thread of a task that is over its limit; its failure is on record already."""


class ThreadTask:
    """One task in a thread.  `on_timeout` is called when it is not done `limit_s` seconds after it began, `on_error`
    with an exception that was not the task's own, but of what Celery does around it."""

    future: Future[None]

    def __init__(
        self,
        limit_s: float | None,
        on_timeout: Callable[[bool, float], None] | None,
        on_error: Callable[[ExceptionInfo], None],
    ) -> None:
        self.abandoned = False
        self._limit_s, self._on_timeout, self._on_error = limit_s, on_timeout, on_error
        self._lock = threading.Lock()
        self._thread: int | None = None
        self._deadline = float("inf")

    def run(self, target: Callable[..., Any], args: Any, kwargs: Any, callback: Any, accept: Any) -> None:
        """Run the task, in its thread."""
        with self._lock:
            self._thread = threading.get_ident()
            if self._limit_s is not None:
                self._deadline = time.monotonic() + self._limit_s
        try:
            apply_target(target, args, kwargs, lambda result: self._end(callback, result), accept)
        except Exception:  # it would only be in the future, which nobody reads
            self._end(self._on_error, ExceptionInfo())

    def is_over(self, now: float) -> bool:
        with self._lock:
            return self._thread is not None and now > self._deadline and not self.abandoned

    def abandon(self) -> None:
        """Report its failure and raise an exception in its thread; nothing for a task that has just ended."""
        with self._lock:
            if self._thread is None:
                return
            self.abandoned = True
            # At the next step of Python that the thread makes.
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread), ctypes.py_object(TaskTimeout))
            self._thread = None
        if self._on_timeout is not None and self._limit_s is not None:
            self._on_timeout(False, self._limit_s)

    def _end(self, callback: Callable[[Any], None], result: Any) -> None:
        with self._lock:
            self._thread = None
        if not self.abandoned:
            # Celery gives what ends a process (SystemExit) as an exception's info to the callback for results.
            (self._on_error if isinstance(result, ExceptionInfo) else callback)(result)


class ThreadPool(TaskPool):
    executor: ThreadPoolExecutor

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.tasks: set[ThreadTask] = set()

    def register_with_event_loop(self, hub: Any) -> None:
        hub.call_repeatedly(CHECK_EVERY_S, self.end_overdue)

    def on_apply(
        self,
        target: Callable[..., Any],
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        callback: Callable[..., Any] | None = None,
        accept_callback: Callable[..., Any] | None = None,
        timeout: float | None = None,
        timeout_callback: Callable[[bool, float], None] | None = None,
        error_callback: Callable[[ExceptionInfo], None] = lambda info: None,
        **_: Any,
    ) -> ApplyResult:
        task = ThreadTask(timeout, timeout_callback, error_callback)
        self.tasks.add(task)
        task.future = self.executor.submit(task.run, target, args, kwargs, callback, accept_callback)
        task.future.add_done_callback(lambda _: self.tasks.discard(task))
        return ApplyResult(task.future)

    def end_overdue(self) -> None:
        """Abandon tasks that are over their limit, and continue with a new set of threads."""
        now = time.monotonic()
        overdue = [task for task in tuple(self.tasks) if task.is_over(now)]
        for task in overdue:
            try:
                task.abandon()
            except Exception as error:  # the worker's loop must go on
                logger.error("the failure of a task over its limit was not recorded: %r", error)
        if overdue:
            self.executor.shutdown(wait=False)
            self.executor = ThreadPoolExecutor(max_workers=self.limit)

    def on_stop(self) -> None:
        if not state.should_terminate:
            wait([task.future for task in tuple(self.tasks) if not task.abandoned])
        self.executor.shutdown(wait=False, cancel_futures=True)

    def terminate_job(self, pid: int, signal: Any = None) -> None:
        """A thread cannot be killed: it is abandoned."""
