"""Where a run stands, read from its output folder alone: it holds when the farm is down."""

from __future__ import annotations

import fcntl
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from orchestrator.output import OutputFolder, run_id_of
from orchestrator.runs.bulletin import read_usage
from orchestrator.runs.parking import read_parking
from orchestrator.settings import SettingsError, load_settings

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
    unheard_usd: float
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
    parking = read_parking(output)
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
        unheard_usd=used.get("unheard_usd", 0.0),
        budget_usd=used.get("budget_usd", 0.0),
        reason=parking.reason if parking else "",
        failures=tuple(f"{f.stage} of {f.node}: {f.error}" for f in parking.failures) if parking else (),
    )


def _state(output: OutputFolder, *, parked: bool) -> State:
    if is_held(output.path):
        return "running"
    if output.answers.exists():
        return "finished"
    return "parked" if parked else "stopped"


def is_held(folder: Path) -> bool:
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
