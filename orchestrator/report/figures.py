"""`report.json` and `front.json`: the records that are written, and read again.

Their JSON schemas are those of the types, `TypeAdapter(ReportFile).json_schema()`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import FiniteFloat

from orchestrator.evolve.choice import Goal
from orchestrator.evolve.systems import Measurement, System, SystemKind
from orchestrator.report.intervals import mean_interval, share_interval
from orchestrator.report.paired import Paired

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
