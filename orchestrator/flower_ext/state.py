"""The monitor's state: the runs, refreshed in a thread beside Flower's loop, and the retries that it started.

A retry is `orchestrator retry`, as a person types it, in a process of its own, at most one for a run.  The output
folder's lock excludes a second driver, wherever it was started.  When the monitor ends, its retries are stopped as
with Ctrl+C, and the runs can go on from where they are.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from textwrap import dedent
from typing import Any

import redis
from celery import Celery
from kombu.exceptions import OperationalError
from tornado.ioloop import IOLoop

from orchestrator.dispatch.failures import NoSuchTask, retry_failed
from orchestrator.farm.embedded import ChildProcess, Command, describe_exit, log_tail
from orchestrator.flower_ext.retry_policy import (
    ObservedTask,
    RetryMode,
    RetryRejected,
    may_retry,
    retry_mode,
    run_of_task,
)
from orchestrator.flower_ext.run_index import RunView, index_runs
from orchestrator.shell import command_line
from tasks import logs
from tasks.labels import parse_label
from tasks.store.store import Store

log = logging.getLogger(__name__)
GRACE_S = 8.0  # for a run to end in order
SHOWN_LINES = 3


@dataclass(frozen=True)
class RetryView:
    """A retry: whether it runs, how it ended otherwise, and the last lines of its output."""

    at_work: bool
    ended: str
    output: str


@dataclass
class RetryProcesses:
    """The retries of this process.  `start` belongs to the main thread (see `ChildProcess`)."""

    logs: Path
    environment: Mapping[str, str]
    _processes: dict[str, ChildProcess] = field(default_factory=dict)
    _started: dict[str, float] = field(default_factory=dict)

    def start(self, run: str, folder: Path) -> None:
        """Go on with a run that no process drives.  Raises: OSError when no process can be started."""
        argv = (sys.executable, "-m", "orchestrator", "retry", str(folder), "--plain")
        log = self.logs / f"{run}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {command_line('retry', folder)}\n")
        self._started[run] = time.time()
        process = ChildProcess(Command(f"retry {run}", argv, log, self.environment))
        process.start()
        self._processes[run] = process

    def at_work(self) -> dict[str, float]:
        """The runs that are driven from here, and since when, in seconds since 1970."""
        return {run: self._started[run] for run, process in self._processes.items() if process.alive}

    def view(self, run: str) -> RetryView | None:
        """None for a run that was not retried from here."""
        process = self._processes.get(run)
        if process is None:
            return None
        ended = "" if process.alive else describe_exit(process.returncode)
        return RetryView(process.alive, ended, dedent(log_tail(self.logs / f"{run}.log", SHOWN_LINES)).strip())

    def stop(self) -> None:
        """Stop all retries at once, and wait until they have ended."""
        for process in self._processes.values():
            process.ask_to_stop()
        until = time.monotonic() + GRACE_S
        for process in self._processes.values():
            process.stop(max(0.0, until - time.monotonic()))


@dataclass
class Monitor:
    """`seen` returns what Flower has seen of a task.  What waits for the farm runs in `executor`."""

    app: Celery
    outputs: Path
    store: Store
    retries: RetryProcesses
    executor: Executor
    seen: Callable[[str], Any]
    views: Mapping[str, RunView] = field(default_factory=dict)

    async def refresh(self) -> None:
        """Look at runs anew.  Raises: RetryRejected (503) when the store is away."""
        try:
            self.views = await IOLoop.current().run_in_executor(self.executor, index_runs, self.outputs, self.store)
        except redis.RedisError as error:
            raise RetryRejected(503, f"the farm's store does not answer: {error}") from None

    async def refresh_periodically(self) -> None:
        """`refresh`, for a timer: a store that is away is looked for again the next time."""
        try:
            await self.refresh()
        except RetryRejected as refused:
            log.warning("%s", refused.reason)

    def may_retry(self, run: str) -> bool:
        return may_retry(run, self.views, self.retries.at_work())

    async def retry_task(self, task: str) -> str:
        """Have the task's run go on; returns the run's id.  Raises: RetryRejected."""
        await self.refresh()
        return await self._retry(run_of_task(task, self._seen(task), self.views), [task])

    async def retry_run(self, run: str) -> str:
        """Have a run go on with all that failed in it; returns its id.  Raises: RetryRejected."""
        await self.refresh()
        return await self._retry(run, [])

    async def _retry(self, run: str, tasks: list[str]) -> str:
        if retry_mode(run, self.views, self.retries.at_work()) is RetryMode.SEND:
            await self._dispatch(run, tasks)
        else:
            self._drive(run)
        with logs.fields(run=run):
            log.info("retried")
        await self.refresh()
        return run

    def _drive(self, run: str) -> None:
        status = self.views[run].status
        assert status is not None, "a run that we may drive has a folder"
        try:
            self.retries.start(run, Path(status.folder))
        except OSError as error:
            raise RetryRejected(503, f"orchestrator retry could not be started: {error}") from None

    async def _dispatch(self, run: str, tasks: list[str]) -> None:
        again = partial(retry_failed, self.app, self.store, run, tasks)
        try:
            sent = await IOLoop.current().run_in_executor(self.executor, again)
        except NoSuchTask:
            sent = []
        except (redis.RedisError, OperationalError) as error:
            raise RetryRejected(503, f"the farm does not answer: {error}") from None
        if not sent:
            raise RetryRejected(409, f"run {run} has been retried meanwhile")

    def _seen(self, task: str) -> ObservedTask | None:
        found = self.seen(task)
        return None if found is None else ObservedTask(found.name or "", found.state, parse_label(found.args or "").run)
