"""Where a run is, of any kind, read from its output folder: it holds when the farm is down and Redis is lost."""

from __future__ import annotations

import dataclasses
import fcntl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from orchestrator.output import OutputError, OutputFolder, read_json, run_id_of
from orchestrator.runs.kinds import RunProgress, kind_of
from tasks.failure import Failure

PARKED, USAGE = "parked.json", "usage.json"
State = Literal["running", "finished", "parked", "stopped"]


@dataclass(frozen=True)
class ParkedState:
    """Why a run parked, in one line, and the tasks that failed, where some did."""

    reason: str
    failures: tuple[Failure, ...] = ()


def write_parked_state(output: OutputFolder, parked: ParkedState) -> None:
    output.write_json(PARKED, dataclasses.asdict(parked))


def read_parked_state(output: OutputFolder) -> ParkedState | None:
    """None for a run that has not parked.  Raises: OutputError for a file that cannot be used."""
    try:
        return read_json(output.path / PARKED, ParkedState)
    except FileNotFoundError:
        return None


def clear_parked_state(output: OutputFolder) -> None:
    (output.path / PARKED).unlink(missing_ok=True)


def read_usage(output: OutputFolder) -> dict[str, float]:
    """What the run has used so far, as `usage.json` says; {} where no such file can be read."""
    try:
        return read_json(output.path / USAGE, dict[str, float])
    except (OSError, OutputError):
        return {}


@dataclass(frozen=True)
class RunStatus:
    """`done` of `total` (None: unknown) of what `unit` names; `figures` are numbers of this kind of run, by name.

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
    target_tokens: int
    calls: int
    cost_usd: float
    unconfirmed_usd: float
    budget_usd: float
    reason: str  # why it parked, or ""
    failures: tuple[Failure, ...]

    @property
    def progress(self) -> str:
        """As in "2 of 8 generations"."""
        return f"{self.done} of {'?' if self.total is None else self.total} {self.unit}"


def find_runs(folder: Path) -> list[Path]:
    """The output folders under a folder, or the folder itself."""
    return sorted(path.parent for path in folder.glob("**/run.json"))


def run_status(folder: Path) -> RunStatus:
    """Raises: OutputError when the folder holds no run."""
    output, run_id = OutputFolder(folder), run_id_of(folder)
    name, kind = kind_of(folder)
    progress, parked, used = kind.progress(folder), read_parked_state(output), read_usage(output)
    return RunStatus(
        run=run_id,
        kind=name,
        folder=str(folder),
        state=_state(folder, progress, parked),
        unit=progress.unit,
        done=progress.done,
        total=progress.total,
        figures=dict(progress.figures),
        target_tokens=int(used.get("target", 0)),
        calls=int(used.get("requests", 0)),
        cost_usd=used.get("cost_usd", 0.0),
        unconfirmed_usd=used.get("unconfirmed_usd", 0.0),
        budget_usd=used.get("budget_usd", 0.0),
        reason=parked.reason if parked else "",
        failures=parked.failures if parked else (),
    )


def _state(folder: Path, progress: RunProgress, parked: ParkedState | None) -> State:
    if is_locked(folder):
        return "running"
    if progress.is_finished:
        return "finished"
    return "parked" if parked else "stopped"


def is_locked(folder: Path) -> bool:
    """Whether a process works on the run now."""
    try:
        with (folder / ".lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False
