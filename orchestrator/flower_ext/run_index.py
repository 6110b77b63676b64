"""What the monitor knows of runs: from their output folders where they stand, from the store what is live."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from orchestrator.dispatch.failures import Failed, failed_tasks
from orchestrator.output import OutputError, run_id_of
from orchestrator.runs.status import Standing, find_runs, is_locked, standing_of
from tasks.store.store import Store

_FILES = ("config", "history.jsonl", "answers.json", "parked.json", "usage.json")  # what a standing is read from


@dataclass(frozen=True)
class RunView:
    """One run.  `standing` is None when its folder is not to be seen from here; usage is the run's total so far."""

    run: str
    standing: Standing | None
    calls: int
    tokens: int
    cost_usd: float
    failed: tuple[Failed, ...]

    @property
    def state(self) -> str:
        return self.standing.state if self.standing else "elsewhere"


def survey(outputs: Path, store: Store) -> dict[str, RunView]:
    """All runs under a folder or in the store, by their ids.  Raises: redis.RedisError when the store is away."""
    standings = _standings(outputs)
    known = set(store.run_ids())
    return {run: _view(run, standings.get(run), store, run in known) for run in sorted(known | set(standings))}


def _view(run: str, standing: Standing | None, store: Store, known: bool) -> RunView:
    usage: Mapping[str, float] = store.usage(run)
    if not usage and standing:
        usage = {"requests": standing.calls, "target": standing.target_tokens, "cost_usd": standing.cost_usd}
    return RunView(
        run=run,
        standing=standing,
        calls=int(usage.get("requests", 0)),
        tokens=int(usage.get("target", 0)),
        cost_usd=usage.get("cost_usd", 0.0),
        failed=_failed(store, run) if known else (),
    )


def _failed(store: Store, run: str) -> tuple[Failed, ...]:
    try:
        return tuple(failed_tasks(store, run))
    except KeyError:
        return ()  # a plan that was completed leaves the store, also while somebody looks


def _standings(outputs: Path) -> dict[str, Standing]:
    found: dict[str, Standing] = {}
    for folder in find_runs(outputs):
        try:
            found.setdefault(run_id_of(folder), _standing(folder, _signature(folder)))
        except (OutputError, OSError):
            continue  # a folder that nobody here can go on with is no run
    return found


@lru_cache(maxsize=1000)
def _standing(folder: Path, signature: tuple[object, ...]) -> Standing:
    """Reading a run's settings takes a tenth of a second: done again when one of its files has changed."""
    return standing_of(folder)


def _signature(folder: Path) -> tuple[object, ...]:
    def changed(name: str) -> int | None:
        try:
            return os.stat(folder / name).st_mtime_ns
        except OSError:
            return None

    return (is_locked(folder), *(changed(name) for name in _FILES))
