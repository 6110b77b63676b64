"""`report.json`, `front.json` and the points of the plot, from what a finished run has measured and decided."""

from __future__ import annotations

from typing import Any, get_args

from orchestrator.evolve.choice import Goal
from orchestrator.evolve.front import front, front_of
from orchestrator.evolve.systems import Book, Point, System
from orchestrator.report.conclusion import conclude
from orchestrator.report.figures import FrontFile, ReportedSystem, ReportFile, SetName, figures_of


def report_of(run: str, book: Book, goal: Goal, margin: float, seed: int, *, whole: bool = True) -> ReportFile:
    """All figures and the conclusion; the arguments are those of `conclude`."""
    members = {one.name for one in front_of(book)}
    return ReportFile(
        run=run,
        goal=goal,
        margin=margin,
        cap=book.cap,
        winner=book.winner,
        systems=tuple(
            _reported(one, seed, whole=whole, is_on_front=one.name in members, passed=one.name in book.passed)
            for one in book.systems
        ),
        conclusion=conclude(book, margin, seed, whole=whole),
        test_uses=book.test_uses,
    )


def _reported(system: System, seed: int, *, whole: bool, is_on_front: bool, passed: bool) -> ReportedSystem:
    measured = {which: getattr(system, which) for which in get_args(SetName)}
    figures = {which: None if found is None else figures_of(found, seed) for which, found in measured.items()}
    return ReportedSystem(
        name=system.name,
        kind=system.kind,
        system_prompt=system.system_prompt,
        arm=system.arm,
        deltas=system.deltas,
        clustering=system.clustering,
        max_tokens=system.max_tokens,
        end="sentence" if whole and system.deltas else "any",
        **figures,
        is_on_front=is_on_front,
        passed=passed,
    )


def front_file(report: ReportFile) -> FrontFile:
    """The members of the front, those that passed, and the winner: the order tests also what is off the front."""
    members = [one for one in report.systems if one.is_on_front or one.passed or one.name == report.winner]
    members.sort(key=lambda one: 0.0 if one.training is None else one.training.mean_tokens)
    return FrontFile(report.winner, tuple(members))


def plot_points(report: ReportFile) -> list[dict[str, Any]]:
    """The systems on the set that put the front in order, which no fitness used where there are enough questions."""
    which: SetName = "ordering" if any(one.ordering for one in report.systems) else "training"
    asked = [(one, found) for one in report.systems if (found := one.on(which)) is not None]
    on_front = front([Point(found.mean_tokens, found.correct / found.n) for _, found in asked])
    return [
        {
            "name": one.name,
            "kind": one.kind,
            "set": which,
            "mean_tokens": found.mean_tokens,
            "mean_tokens_interval": list(found.mean_tokens_interval),
            "correct": found.correct / found.n,
            "correct_interval": [end / found.n for end in found.correct_interval],
            "whole": found.whole / found.n,
            "is_on_front": place in on_front,
            "is_winner": one.name == report.winner,
        }
        for place, (one, found) in enumerate(asked)
    ]
