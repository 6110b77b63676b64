"""`report.json`, `front.json` and the points of the plot: what a finished run has measured and decided, in one model.

The JSON schemas are those of the types, `TypeAdapter(ReportFile).json_schema()`; the text and the page are made of it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

from pydantic import FiniteFloat

from orchestrator.evolve.choice import Goal, front, front_of
from orchestrator.evolve.systems import Book, System, SystemKind
from orchestrator.report.statistics import Measurement, Paired, Point, mean_interval, share_interval

SetName = Literal["training", "ordering", "validation", "test"]
LAST_FIRST: tuple[SetName, ...] = ("test", "validation", "ordering", "training")
"""The sets, that first which is asked last."""
Outcome = Literal["deploy", "use_prompt", "use_cut", "nothing_shown"]
"""deploy: a vector or an evolved system passed, and nothing free does as well on the test questions.  use_prompt: the
winner is a system prompt alone, or one that passed too does as well.  use_cut: a limit of tokens or a stop after the
first sentence does as well.  nothing_shown: the plain model stays."""
Bounds = tuple[FiniteFloat, FiniteFloat]
"""The two ends of an interval at 95 %."""


@dataclass(frozen=True)
class Figures:
    """One system on one set of `n` questions: numbers of answers, but for `mean_tokens` of an answer."""

    n: int
    mean_tokens: FiniteFloat
    mean_tokens_interval: Bounds
    right: int
    whole: int
    correct: int
    correct_interval: Bounds
    loops: int = 0


@dataclass(frozen=True)
class ReportedSystem:
    """A system with its figures on each set, None where it was not asked: see `orchestrator.evolve.systems.System`.

    end: after which tokens the first delta, that of the end of a turn, acts: any, or those that end a sentence; any
    without deltas;
    is_on_front: no other has fewer tokens without fewer correct answers, on the training set, and it has at least half
    as many as the plain model; passed: a loss of correct answers of the margin or more is excluded by the validation
    set.
    """

    name: str
    kind: SystemKind
    system_prompt: str
    arm: str
    deltas: tuple[FiniteFloat, ...]
    clustering: str
    max_tokens: int
    end: Literal["any", "sentence"]
    training: Figures | None
    ordering: Figures | None
    validation: Figures | None
    test: Figures | None
    is_on_front: bool
    passed: bool

    def on(self, which: SetName) -> Figures | None:
        found: Figures | None = getattr(self, which)
        return found


def last_common(*systems: System | ReportedSystem) -> SetName | None:
    """The last set that all of these were asked."""
    return next((which for which in LAST_FIRST if all(getattr(one, which) is not None for one in systems)), None)


@dataclass(frozen=True)
class Conclusion:
    """`sentences` begin with the most important one, `sentence`; the last says what to do.

    measured_on: the set of the winner's figures; paired: the winner against the plain model on it; rival: the name of
    the prompt or cut with the most correct answers to it (where the plain model stays, to the last set of the most
    promising system) that is no longer than the plain model, None without one.
    """

    outcome: Outcome
    sentence: str
    sentences: tuple[str, ...]
    measured_on: SetName
    paired: Paired
    rival: str | None


@dataclass(frozen=True)
class ReportFile:
    """`report.json`.  margin: a share (0.05); cap: the most tokens of an answer; test_uses: as in `Book`."""

    run: str
    goal: Goal
    margin: FiniteFloat
    cap: int
    winner: str
    systems: tuple[ReportedSystem, ...]
    conclusion: Conclusion
    test_uses: int

    def system(self, name: str) -> ReportedSystem:
        return next(one for one in self.systems if one.name == name)


@dataclass(frozen=True)
class FrontFile:
    """`front.json`: the members of the front, those that passed and the winner, the fewest tokens first."""

    winner: str
    members: tuple[ReportedSystem, ...]


def figures_of(found: Measurement, seed: int) -> Figures:
    """`seed` is that of the bootstrap."""
    count, correct = len(found.examples), sum(found.correct)
    tokens, share = mean_interval(found.tokens, seed), share_interval(correct, count)
    return Figures(
        n=count,
        mean_tokens=tokens.value,
        mean_tokens_interval=(tokens.low, tokens.high),
        right=sum(found.right),
        whole=sum(found.whole),
        correct=correct,
        correct_interval=(count * share.low, count * share.high),
        loops=sum(found.loops),
    )


def reported_systems(book: Book, seed: int, *, whole: bool) -> tuple[ReportedSystem, ...]:
    """All systems of a run, finished or not; `seed` is that of the bootstrap."""
    members = {one.name for one in front_of(book)} if book.systems else set()

    def reported(one: System) -> ReportedSystem:
        values: dict[str, Any] = {field.name: getattr(one, field.name) for field in fields(System)}
        values |= {which: values[which] and figures_of(values[which], seed) for which in LAST_FIRST}
        values["end"] = "sentence" if whole and one.deltas else "any"
        return ReportedSystem(**values, is_on_front=one.name in members, passed=one.name in book.passed)

    return tuple(map(reported, book.systems))


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
