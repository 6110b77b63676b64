"""Where a run stands, read from its output folder alone: it holds when the farm is down."""

from __future__ import annotations

import fcntl
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from orchestrator.output import OutputError, OutputFolder, run_id_of
from orchestrator.settings import SettingsError, load_settings

State = Literal["running", "stopped", "parked", "finished"]


@dataclass(frozen=True)
class Standing:
    """`generation` counts those done; `generations` is None when the folder's config cannot be read."""

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
    failures = _failures(output)
    return Standing(
        run=run_id,
        folder=str(folder),
        state=_state(output, failures),
        generation=len(history),
        generations=_generations(output),
        first_fitness=history[0]["population"][0]["fitness"] if history else None,
        best_fitness=history[-1]["best_ever"] if history else None,
        mean_tokens=last and last["mean_tokens"],
        correctness=last and last["correctness"],
        target_tokens=sum(g["tokens"]["target"] for g in history),
        calls=sum(g["calls"] for g in history),
        cost_usd=sum(g["cost_usd"] for g in history),
        failures=failures,
    )


def _state(output: OutputFolder, failures: tuple[str, ...]) -> State:
    if _held(output.path / ".lock"):
        return "running"
    if output.answers.exists():
        return "finished"
    return "parked" if failures else "stopped"


def _held(lock: Path) -> bool:
    """Whether a process is in the folder now."""
    try:
        with lock.open() as held:
            fcntl.flock(held, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _failures(output: OutputFolder) -> tuple[str, ...]:
    try:
        values: list[dict[str, Any]] = json.loads((output.path / "parked.json").read_text())["failures"]
        return tuple(f"{v['stage']} of {v['node']}: {v['error']}" for v in values)
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise OutputError(f"{output.path / 'parked.json'} cannot be read: {error}") from None


def _generations(output: OutputFolder) -> int | None:
    try:
        return load_settings(output.config).ngen
    except SettingsError:
        return None
