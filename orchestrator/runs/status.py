"""Why a run parked, in its output folder: it can be read when the farm is down and Redis is gone.

What failed in the run of an output folder: from the farm's record while it is up, else from the folder.

Where a run stands, read from its output folder alone: it holds when the farm is down.
"""

from __future__ import annotations

import dataclasses
import fcntl
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from orchestrator.dispatch.failures import Failed, failed_tasks
from orchestrator.farm.connection import FarmUnavailable, reach_farm_of
from orchestrator.output import OutputFolder, read_json, run_id_of
from orchestrator.runs.publisher import read_usage
from orchestrator.settings import SettingsError, load_settings

NAME = "parked.json"


@dataclass(frozen=True)
class ParkedState:
    """The reason in one line, and the tasks that failed, where some did."""

    reason: str
    failures: tuple[Failed, ...]


def write_parked_state(output: OutputFolder, parking: ParkedState) -> None:
    output.write_json(NAME, dataclasses.asdict(parking))


def read_parked_state(output: OutputFolder) -> ParkedState | None:
    """None for a run that has not parked.  Raises: OutputError for a file that is of no use."""
    try:
        return read_json(output.path / NAME, ParkedState)
    except FileNotFoundError:
        return None


def clear_parked_state(output: OutputFolder) -> None:
    (output.path / NAME).unlink(missing_ok=True)


def failed_of(folder: Path) -> list[Failed]:
    """Oldest first.  Raises: OutputError, SettingsError."""
    run_id = run_id_of(folder)
    parking = read_parked_state(OutputFolder(folder))
    try:
        with reach_farm_of(folder) as farm:
            # A store that has lost the run knows of no failures; the folder does.
            if farm.store.has_run(run_id):
                return failed_tasks(farm.store, run_id)
    except FarmUnavailable:
        pass
    return list(parking.failures) if parking else []


State = Literal["running", "stopped", "parked", "finished"]


@dataclass(frozen=True)
class Standing:
    """`generation` counts those done; `generations` is None when the folder's config cannot be read.

    Tokens, calls and money are those used so far, also by a generation that is not done.  `budget_usd` 0 is none.
    """

    run: str
    folder: str
    state: State
    generation: int
    generations: int | None
    first_fitness: float | None
    best_fitness: float | None
    mean_tokens: float | None
    correctness: float | None
    target_tokens: int
    calls: int
    cost_usd: float
    unconfirmed_usd: float
    budget_usd: float
    reason: str  # why it parked, or ""
    failures: tuple[str, ...]


def find_runs(folder: Path) -> list[Path]:
    """The output folders under a folder, or the folder itself."""
    return sorted(path.parent for path in folder.glob("**/run.json"))


def standing_of(folder: Path) -> Standing:
    """Raises: OutputError when the folder holds no run."""
    output = OutputFolder(folder)
    run_id = run_id_of(folder)
    history = output.read_history()
    last = max(history[-1]["population"], key=lambda p: p["fitness"]) if history else None
    parking = read_parked_state(output)
    used = read_usage(output)
    return Standing(
        run=run_id,
        folder=str(folder),
        state=_state(output, parked=parking is not None),
        generation=len(history),
        generations=_generations(output),
        first_fitness=history[0]["population"][0]["fitness"] if history else None,
        best_fitness=history[-1]["best_ever"] if history else None,
        mean_tokens=last and last["mean_tokens"],
        correctness=last and last["correctness"],
        target_tokens=int(used.get("target", 0)),
        calls=int(used.get("requests", 0)),
        cost_usd=used.get("cost_usd", 0.0),
        unconfirmed_usd=used.get("unconfirmed_usd", 0.0),
        budget_usd=used.get("budget_usd", 0.0),
        reason=parking.reason if parking else "",
        failures=tuple(f"{f.stage} of {f.node}: {f.error}" for f in parking.failures) if parking else (),
    )


def _state(output: OutputFolder, *, parked: bool) -> State:
    if is_locked(output.path):
        return "running"
    if output.answers.exists():
        return "finished"
    return "parked" if parked else "stopped"


def is_locked(folder: Path) -> bool:
    """Whether a process is at this run now."""
    try:
        with (folder / ".lock").open() as held:
            fcntl.flock(held, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _generations(output: OutputFolder) -> int | None:
    try:
        return load_settings(output.config).ngen
    except SettingsError:
        return None
