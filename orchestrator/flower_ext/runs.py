"""The runs of a farm, for Flower: their output folders say how far they are, the store what has failed; and Retry.

A failed message is not sent again, since the rest of its chain would be missing: it is the run that goes on.  Where a
process drives the run, what failed is sent for it to find done; where none does, `orchestrator retry` is started.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import redis
from celery import Celery
from kombu.exceptions import OperationalError

from orchestrator.runs.folder import OutputError, is_locked, run_file
from orchestrator.runs.lifecycle import retry_failed
from orchestrator.runs.status import RunStatus, find_runs, run_status
from orchestrator.settings import SettingsError
from tasks.records import Failure
from tasks.store.store import Store


class RetryRejected(Exception):
    """It may not be retried.  `status` is HTTP's."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(frozen=True)
class RunView:
    """One run.  `status` is None when its folder is not visible from here, or when one of its files cannot be read:
    `problem` names that file.  `usage` is the run's total so far.
    """

    run: str
    status: RunStatus | None
    usage: Mapping[str, float]
    failed: tuple[Failure, ...] = ()
    problem: str = ""

    @property
    def state(self) -> str:
        return self.status.state if self.status else "unreadable" if self.problem else "elsewhere"

    @property
    def cost(self) -> str:
        if self.status and self.status.cost_usd is None:
            return "unknown"
        budget = self.status.budget_usd if self.status else 0.0
        return f"${self.usage.get('cost_usd', 0.0):,.4f}" + (f" of ${budget:,.2f}" if budget else "")


def index_runs(outputs: Path, store: Store) -> dict[str, RunView]:
    """All runs under a folder or in the store, by id."""
    runs = sorted(store.run_ids())
    found = {run: RunView(run, None, store.usage(run), tuple(store.failed_tasks(run))) for run in runs}
    for folder in find_runs(outputs):
        run = str(folder)
        try:
            run = run_file(folder)["id"]
            changed = max(entry.stat().st_mtime_ns for entry in os.scandir(folder))
            status = _status(folder, is_locked(folder), changed)
        except (OutputError, SettingsError, OSError) as error:
            found[run] = RunView(run, None, {}, problem=str(error))
            continue
        saved = {"requests": status.calls, "target": status.target_tokens, "cost_usd": status.cost_usd or 0.0}
        live = found.get(run)
        found[run] = RunView(run, status, live.usage or saved, live.failed) if live else RunView(run, status, saved)
    return found


@lru_cache(maxsize=1000)
def _status(folder: Path, *signature: object) -> RunStatus:
    """Reading a run's settings takes a tenth of a second: done again when one of its files has changed."""
    return run_status(folder)


def retry(app: Celery, store: Store, view: RunView, tasks: Sequence[str], logs: Path) -> None:
    """Have a run go on: with `tasks`, or with all that failed in it."""
    if view.problem or view.state == "finished":
        raise RetryRejected(409, view.problem or f"run {view.run} is finished")
    if view.status is None or view.state == "running":
        try:
            sent = retry_failed(app, store, view.run, tasks)
        except SettingsError as error:
            raise RetryRejected(409, str(error)) from None
        except (redis.RedisError, OperationalError) as error:
            raise RetryRejected(503, f"the farm does not answer: {error}") from None
        if not sent:
            raise RetryRejected(409, f"nothing of run {view.run} has failed")
        return
    logs.mkdir(exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FLOWER_")}
    with (logs / f"{view.run}.log").open("ab") as log:
        # The output folder's lock excludes a second driver.  It goes on when Flower ends.
        subprocess.Popen(
            (sys.executable, "-m", "orchestrator", "retry", view.status.folder, "--plain"),
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, start_new_session=True,
        )  # fmt: skip
