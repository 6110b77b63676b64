"""How far a run is, of any kind: read from its output folder, and published while its driver works.

The driver publishes in the store's metadata `status`, for whatever watches the farm, and in `usage.json`, so that
counters and cost outlive the store.
"""

from __future__ import annotations

import dataclasses
import json
import platform
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import redis
from pydantic import FiniteFloat
from typing_extensions import TypedDict

from orchestrator.console import format_count
from orchestrator.farm import Parked
from orchestrator.runs.folder import OutputError, OutputFolder, OutputNotWritable, find_json, is_locked, run_file
from orchestrator.runs.kinds import kind_of
from orchestrator.settings import SettingsError
from tasks.openai.limits import spending_of
from tasks.records import Failure
from tasks.store.client import RunTaken
from tasks.store.keys import STATUS
from tasks.store.store import Store
from tasks.store.workers import code_version

PARKED_FILE, USAGE, VERSIONS_FILE = "parked.json", "usage.json", "versions.json"
PACKAGES = ("whetstone-farm", "celery", "redis", "numpy", "deap", "pydantic")
DEAD_END = "with the same settings and data it stops there again: change them, and start another run"
State = Literal["running", "finished", "parked", "stopped"]


@dataclass(frozen=True)
class ParkedState:
    """Why a run parked; `is_dead_end`: it would stop there again, and only other settings or data help."""

    reason: str
    failures: tuple[Failure, ...] = ()
    is_dead_end: bool = False


def write_parked_state(output: OutputFolder, parked: ParkedState) -> None:
    output.write_json(PARKED_FILE, dataclasses.asdict(parked))


def read_parked_state(output: OutputFolder) -> ParkedState | None:
    """None for a run that has not parked."""
    return find_json(output.path / PARKED_FILE, ParkedState, "`orchestrator retry` needs no such file: remove it")


def read_usage(output: OutputFolder) -> dict[str, float]:
    """What the run has used so far, as `usage.json` says; {} before there is one."""
    remedy = "without this file they count from 0: remove it"
    return find_json(output.path / USAGE, dict[str, FiniteFloat], remedy) or {}


@dataclass(frozen=True)
class Versions:
    """What the orchestrator of a session was: `code` is the hash of the packages that do the work."""

    code: str
    python: str
    system: str
    packages: Mapping[str, str]

    @classmethod
    def here(cls) -> Versions:
        """Those of this process."""
        installed = {}
        for name in PACKAGES:
            with suppress(metadata.PackageNotFoundError):  # of a source tree, the code says which it is
                installed[name] = metadata.version(name)
        return cls(code_version(), platform.python_version(), platform.platform(), installed)


class VersionsFile(TypedDict):
    sessions: list[Versions]


def read_versions(output: OutputFolder) -> list[Versions]:
    """Of the sessions, oldest first; none for a run that has not started."""
    found = find_json(output.path / VERSIONS_FILE, VersionsFile)
    return found["sessions"] if found else []


def keep_versions(output: OutputFolder) -> None:
    """Add this session's versions, unless the one before had the same."""
    known, here = read_versions(output), Versions.here()
    if known[-1:] != [here]:
        output.write_json(VERSIONS_FILE, {"sessions": [dataclasses.asdict(one) for one in (*known, here)]})


@dataclass(frozen=True)
class RunStatus:
    """`done` of `total` (None: unknown) of what `unit` names; `figures` are numbers of this kind of run, by name, and
    `summary` the most important of them in words.

    Tokens, calls and cost are those used so far, also by what is not done.  `budget_usd` 0 is none.
    """

    run: str
    kind: str
    folder: str
    state: State
    unit: str
    done: int
    total: int | None
    figures: Mapping[str, float | None]
    summary: str
    target_tokens: int
    calls: int
    cost_usd: float | None  # None: the prices are not known
    unconfirmed_usd: float
    budget_usd: float
    reason: str  # why it parked, or stopped at a dead end, or ""
    failures: tuple[Failure, ...]
    step: str  # what the process that drives it is at, or ""

    @property
    def progress(self) -> str:
        """As in "2 of 8 generations"."""
        return f"{self.done} of {'? ' + self.unit if self.total is None else format_count(self.total, self.unit)}"


def find_runs(folder: Path) -> list[Path]:
    """The output folders under a folder, or the folder itself."""
    return sorted(path.parent for path in folder.glob("**/run.json"))


def run_status(folder: Path) -> RunStatus:
    output, kind = OutputFolder(folder), kind_of(folder)
    progress, parked, used = kind.progress(folder), read_parked_state(output), read_usage(output)
    state: State = "parked" if parked and not parked.is_dead_end else "stopped"
    state = "running" if is_locked(folder) else "finished" if progress.is_finished else state
    return RunStatus(
        run=run_file(folder)["id"],
        kind=kind.name,
        folder=str(folder),
        state=state,
        unit=progress.unit,
        done=progress.done,
        total=progress.total,
        figures=dict(progress.figures),
        summary=kind.summary(progress.figures),
        target_tokens=int(used.get("target", 0)),
        calls=int(used.get("requests", 0)),
        cost_usd=used.get("cost_usd") if used else 0.0,
        unconfirmed_usd=used.get("unconfirmed_usd", 0.0),
        budget_usd=used.get("budget_usd", 0.0),
        reason=parked.reason if parked else "",
        failures=parked.failures if parked else (),
        step=progress.step if state == "running" else "",
    )


def statuses(folder: Path) -> tuple[list[RunStatus], dict[str, str]]:
    """All runs under a folder; and those of which a file cannot be used, by folder, each with the reason."""
    runs, unreadable = [], {}
    for path in find_runs(folder):
        try:
            runs.append(run_status(path))
        except (OutputError, SettingsError, OSError) as error:
            unreadable[str(path)] = str(error)
    return runs, unreadable


WRITE_EVERY_S = 5.0  # a file that is synced to disk
TOKEN_COUNTS = ("target", "prompt", "cached", "completion")
COUNTS = ("done", "total")
COSTS = ("unconfirmed_usd", "budget_usd")  # beside the counters of the store

Progress = Mapping[str, float | int | None]


@dataclass
class StatusPublisher:
    """Keeps the store's status and usage.json up to date; `about` is published with every status."""

    run_id: str
    store: Store
    output: OutputFolder
    about: Mapping[str, Any]
    budget_usd: float
    is_priced: bool = True
    progress: Progress = field(default_factory=dict)
    _written: dict[str, float] = field(default_factory=dict)
    _written_at: float = 0.0

    def restore(self) -> None:
        """Where the store has lost its counters, count on from what the output folder says."""
        counts = {name: value for name, value in read_usage(self.output).items() if name not in COSTS}
        self.store.restore_usage(self.run_id, counts)

    def publish(self, progress: Progress, state: State = "running", usage: Mapping[str, float] | None = None) -> None:
        """`progress` has "done", perhaps "total", and figures by name; `usage` the store's counters, if known."""
        self.progress = dict(progress)
        counts = {name: progress[name] for name in COUNTS if name in progress}
        figures = {name: value for name, value in progress.items() if name not in COUNTS}
        status = {**self.about, "state": state, "is_priced": self.is_priced, "budget_usd": self.budget_usd, **counts}
        status["figures"] = figures
        self.store.put_metadata(self.run_id, STATUS, json.dumps({**status, "updated": round(time.time(), 3)}))
        if state != "running" or time.monotonic() - self._written_at > WRITE_EVERY_S:
            self._write(self.store.usage(self.run_id) if usage is None else usage)

    @contextmanager
    def publish_final_state(self) -> Iterator[None]:
        """Publish how the run ended, whatever it raises: finished, parked, or stopped by anything else."""
        state: State | None = "stopped"
        try:
            yield
            state = "finished"
        except (Parked, OutputNotWritable):
            state = "parked"
            raise
        except (redis.RedisError, RunTaken):
            state = None  # the store is gone, and would only be waited for once more; or the run is another process's
            raise
        finally:
            if state is not None:
                with suppress(redis.RedisError, OutputNotWritable):
                    self.publish(self.progress, state)

    def _write(self, usage: Mapping[str, float]) -> None:
        cost = {"cost_usd": usage.get("cost_usd", 0.0)} if self.is_priced else {}
        used = {name: value for name, value in usage.items() if name != "cost_usd"} | cost
        used["unconfirmed_usd"] = spending_of(self.store.redis, self.run_id).unconfirmed
        used["budget_usd"] = self.budget_usd
        if used != self._written:
            self.output.write_json(USAGE, used)
        self._written, self._written_at = used, time.monotonic()
