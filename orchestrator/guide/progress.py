"""How far a guided run is: `progress.json` in its folder, and its figures in `status`, metrics and the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import FiniteFloat
from typing_extensions import TypedDict

from orchestrator.guide.tally import Tally
from orchestrator.output import read_state
from orchestrator.runs.kinds import Figures, RunProgress
from tasks.guide.gate import share

PROGRESS_FILE, UNIT = "progress.json", "batches"


class GuideProgress(TypedDict):
    """progress.json: batches of all missions that are complete, of how many, and the run's figures."""

    done: int
    total: int
    is_finished: bool
    figures: dict[str, FiniteFloat | None]


def progress_of(tallies: Iterable[Tally], *, is_finished: bool) -> GuideProgress:
    """The progress of a run, from the counts of its missions."""
    all_tallies = list(tallies)
    counted, of = Counter[str](), Counter[str]()
    for tally in all_tallies:
        for name, rate in tally.rates().items():
            counted[name] += rate["count"]
            of[name] += rate["of"]
    figures: dict[str, FiniteFloat | None] = {
        "proposals": float(of["acceptance_rate"]),
        "applied": float(counted["acceptance_rate"]),
        "wrong": float(of["recall"]),
        **{name: share(counted[name], of[name]) for name in of},
    }
    done, total = (sum(getattr(tally, name) for tally in all_tallies) for name in ("done", "total"))
    return GuideProgress(done=done, total=total, is_finished=is_finished, figures=figures)


def read_progress(folder: Path) -> RunProgress:
    """Raises: OutputError for a file that cannot be used."""
    try:
        found = read_state(folder / PROGRESS_FILE, GuideProgress, "the next start writes it anew: remove it")
    except FileNotFoundError:
        return RunProgress(UNIT, 0, None, is_finished=False)
    return RunProgress(UNIT, found["done"], found["total"], found["is_finished"], found["figures"])


def guide_figure_lines(figures: Figures) -> Sequence[tuple[str, str]]:
    """The figures as `orchestrator status` shows them."""
    if figures.get("proposals") is None:
        return ()
    paired, unpaired = _share(figures, "precision_paired"), _share(figures, "precision_unpaired")
    return (
        ("edits", f"{_count(figures, 'applied')} applied of {_count(figures, 'proposals')} proposed"),
        ("precision", f"{paired} paired, {unpaired} unpaired, of applied edits with a next batch"),
        ("recall", f"{_share(figures, 'recall')} of {_count(figures, 'wrong')} wrongly judged tickets were named"),
        ("three lines", f"{_share(figures, 'format_validity')} of the candidates"),
    )


def guide_summary(figures: Figures) -> str:
    """The most important figures in a few words, "" where there is none yet."""
    if figures.get("proposals") is None:
        return ""
    return f"{_count(figures, 'applied')} of {_count(figures, 'proposals')} edits applied"


def _count(figures: Mapping[str, Any], name: str) -> str:
    return f"{figures.get(name) or 0:,.0f}"


def _share(figures: Mapping[str, Any], name: str) -> str:
    value = figures.get(name)
    return "not measured" if value is None else f"{value:.0%}"
