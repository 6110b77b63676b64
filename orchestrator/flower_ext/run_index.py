"""All runs: from their output folders how far they are, from the store what is live."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from orchestrator.dispatch.failures import failed_tasks
from orchestrator.output import OutputError, run_id_of
from orchestrator.runs.kinds import kind_of
from orchestrator.runs.status import PARKED_FILE, USAGE, RunStatus, find_runs, is_locked, run_status
from orchestrator.settings import SettingsError
from tasks.failure import Failure
from tasks.store.store import Store


@dataclass(frozen=True)
class RunView:
    """One run.  `status` is None when its folder is not visible from here, or when one of its files cannot be read:
    `problem` names that file.  Usage is the run's total so far.
    """

    run: str
    status: RunStatus | None
    calls: int
    tokens: int
    cost_usd: float | None  # None: the prices are not known
    failed: tuple[Failure, ...]
    problem: str = ""

    @property
    def state(self) -> str:
        return self.status.state if self.status else "unreadable" if self.problem else "elsewhere"


def index_runs(outputs: Path, store: Store) -> dict[str, RunView]:
    """All runs under a folder or in the store, by id.  Raises: redis.RedisError when the store is unreachable."""
    statuses = _statuses(outputs)
    known = set(store.run_ids())
    return {run: _view(run, statuses.get(run), store, run in known) for run in sorted(known | set(statuses))}


def _view(run: str, found: RunStatus | str | None, store: Store, known: bool) -> RunView:
    status, problem = (None, found) if isinstance(found, str) else (found, "")
    usage: Mapping[str, float] = store.usage(run)
    is_priced = status is None or status.cost_usd is not None
    if not usage and status:
        usage = {"requests": status.calls, "target": status.target_tokens, "cost_usd": status.cost_usd or 0.0}
    return RunView(
        run=run,
        status=status,
        calls=int(usage.get("requests", 0)),
        tokens=int(usage.get("target", 0)),
        cost_usd=usage.get("cost_usd", 0.0) if is_priced else None,
        failed=tuple(failed_tasks(store, run)) if known else (),
        problem=problem,
    )


def _statuses(outputs: Path) -> dict[str, RunStatus | str]:
    """By run id; of a run that cannot be read, why.  One whose id cannot be read has its folder in the id's place."""
    found: dict[str, RunStatus | str] = {}
    for folder in find_runs(outputs):
        run = str(folder)
        try:
            run = run_id_of(folder)
            found.setdefault(run, _status(folder, _signature(folder)))
        except (OutputError, SettingsError, OSError) as error:
            found.setdefault(run, str(error))
    return found


@lru_cache(maxsize=1000)
def _status(folder: Path, signature: tuple[object, ...]) -> RunStatus:
    """Reading a run's settings takes a tenth of a second: done again when one of its files has changed."""
    return run_status(folder)


def _signature(folder: Path) -> tuple[object, ...]:
    def changed(name: str) -> int | None:
        try:
            return os.stat(folder / name).st_mtime_ns
        except OSError:
            return None

    _, kind = kind_of(folder)
    return (is_locked(folder), *(changed(name) for name in ("run.json", PARKED_FILE, USAGE, *kind.files)))
