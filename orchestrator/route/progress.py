"""How far a `route` run is: `progress.json` in its folder, and its figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import FiniteFloat
from typing_extensions import TypedDict

from orchestrator.runs.folder import read_state
from orchestrator.runs.kinds import Figures, RunProgress

PROGRESS_FILE, UNIT = "progress.json", "steps"


class RouteProgress(TypedDict):
    """progress.json: steps of all trajectories, and the figures."""

    done: int
    total: int
    is_finished: bool
    figures: dict[str, FiniteFloat | None]


def read_route_progress(folder: Path) -> RunProgress:
    try:
        found = read_state(folder / PROGRESS_FILE, RouteProgress, "the next start writes it anew: remove it")
    except FileNotFoundError:
        return RunProgress(UNIT, 0, None, is_finished=False)
    return RunProgress(UNIT, found["done"], found["total"], found["is_finished"], found["figures"])


def route_figure_lines(figures: Figures) -> Sequence[tuple[str, str]]:
    """The figures as `orchestrator status` shows them."""
    lines = []
    if (total := figures.get("evaluations_total")) is not None:
        lines.append(("evaluated", f"{figures.get('evaluations') or 0:,.0f} of {total:,.0f} deployments"))
    if figures.get("real_hack") is not None:
        lines.append(("hack of B", f"{_rate(figures, 'real_hack')} under real, {_rate(figures, 'none_hack')} unrouted"))
    return tuple(lines)


def route_summary(figures: Figures) -> str:
    if figures.get("real_hack") is None:
        return ""
    return f"hack {_rate(figures, 'real_hack')} against {_rate(figures, 'none_hack')}"


def _rate(figures: Figures, name: str) -> str:
    value = figures.get(name)
    return "not measured" if value is None else f"{value:.0%}"
