"""The monitor's own state: what it knows of runs, kept fresh beside Flower's loop, and the retries that it started."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis
from tornado.ioloop import IOLoop

from orchestrator.monitor.deciding import Refused, Seen, check_run, may_retry, run_of_task
from orchestrator.monitor.retries import Retries
from orchestrator.monitor.survey import RunView, survey
from tasks.shown import read
from tasks.store import Store

log = logging.getLogger(__name__)


@dataclass
class Monitor:
    """`seen` tells what Flower has seen of a task.  All but `survey` happens in the loop's thread."""

    outputs: Path
    store: Store
    retries: Retries
    executor: Executor
    seen: Callable[[str], Any]
    views: Mapping[str, RunView] = field(default_factory=dict)

    async def refresh(self) -> None:
        """Look at runs anew.  Raises: Refused (503) when the store is away."""
        try:
            self.views = await IOLoop.current().run_in_executor(self.executor, survey, self.outputs, self.store)
        except redis.RedisError as error:
            raise Refused(503, f"the farm's store does not answer: {error}") from None

    async def keep_fresh(self) -> None:
        """`refresh`, for a timer: a store that is away is looked for again the next time."""
        try:
            await self.refresh()
        except Refused as refused:
            log.warning("%s", refused.reason)

    def may_retry(self, run: str) -> bool:
        return may_retry(run, self.views, self.retries.at_work())

    async def retry_task(self, task: str) -> str:
        """Have the task's run go on; returns the run's id.  Raises: Refused."""
        await self.refresh()
        return self._retry(run_of_task(task, self._seen(task), self.views))

    async def retry_run(self, run: str) -> str:
        """Have a run go on; returns its id.  Raises: Refused."""
        await self.refresh()
        return self._retry(run)

    def _retry(self, run: str) -> str:
        view = check_run(run, self.views, self.retries.at_work())
        assert view.standing is not None, "checked"
        try:
            self.retries.start(run, Path(view.standing.folder))
        except OSError as error:
            raise Refused(503, f"orchestrator retry could not be started: {error}") from None
        log.info("run=%s retried", run)
        return run

    def _seen(self, task: str) -> Seen | None:
        found = self.seen(task)
        return None if found is None else Seen(found.name or "", found.state, read(found.args or "").run)
