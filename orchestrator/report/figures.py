"""`report.json` as it is read again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field, FiniteFloat, NonNegativeInt, PositiveInt

from orchestrator.report.conclusion import Outcome
from orchestrator.report.inference import NoiseFloor
from orchestrator.report.systems import SetName, SystemKind

Share = Annotated[FiniteFloat, Field(ge=0, le=1)]
Bounds = tuple[FiniteFloat, FiniteFloat]
"""The two ends of an interval at 95 %."""


@dataclass(frozen=True)
class SystemFigures:
    """One system on one set of `n` questions; `correct` is the number of right answers."""

    n: PositiveInt
    mean_tokens: FiniteFloat
    mean_tokens_interval: Bounds
    correct: NonNegativeInt
    share_correct: Share
    share_correct_interval: Bounds
    fitness: FiniteFloat


@dataclass(frozen=True)
class NonInferiorityFigures:
    margin: Share
    bound: FiniteFloat
    p: Share
    is_shown: bool


@dataclass(frozen=True)
class PairFigures:
    """One system against another, on the `n` questions that both were asked; `before` is of the other."""

    against: str
    kind: SystemKind
    n: PositiveInt
    token_ratio: FiniteFloat
    token_ratio_interval: Bounds
    correct_before: NonNegativeInt
    correct_after: NonNegativeInt
    gained: NonNegativeInt
    lost: NonNegativeInt
    correctness_difference: FiniteFloat
    correctness_difference_interval: Bounds
    non_inferiority: NonInferiorityFigures
    shorter_p: Share
    more_right_p: Share
    better_p: Share
    is_shorter: bool
    is_more_right: bool
    is_better: bool


@dataclass(frozen=True)
class ReportedSystem:
    """A system with its figures; None where it was not measured.  `deltas` is empty without steering."""

    name: str
    kind: SystemKind
    system_prompt: str
    deltas: tuple[FiniteFloat, ...]
    validation: SystemFigures | None
    test: SystemFigures | None
    against_plain: PairFigures | None

    def measured_on(self, name: SetName) -> SystemFigures | None:
        return self.validation if name == "validation" else self.test


@dataclass(frozen=True)
class BeforeAndAfter:
    """The plain model and the winner on one set."""

    zero: SystemFigures
    best: SystemFigures


@dataclass(frozen=True)
class ReportedConclusion:
    outcome: Outcome
    measured_on: SetName
    sentences: Annotated[tuple[str, ...], Field(min_length=1)]
    margin: Share
    smallest_visible_loss: Share
    noise_floor: NoiseFloor | None
    rival: str | None = None


@dataclass(frozen=True)
class ReportFigures:
    """`report.json`: what a finished run has shown."""

    run: str
    verdict: str
    conclusion: ReportedConclusion
    validation: BeforeAndAfter | None
    test: BeforeAndAfter | None
    test_uses: NonNegativeInt
    winner: str
    start: str
    choices: Mapping[str, str]
    comparisons: Annotated[tuple[PairFigures, ...], Field(min_length=1)]
    systems: tuple[ReportedSystem, ...]
    rivals: tuple[ReportedSystem, ...] = field(default=())

    @property
    def measured(self) -> BeforeAndAfter:
        """The plain model and the winner on the set of the conclusion."""
        found = self.test if self.conclusion.measured_on == "test" else self.validation
        assert found is not None, "a conclusion is of a set that was measured"
        return found

    @property
    def all_systems(self) -> tuple[ReportedSystem, ...]:
        """The plain model first, then the other systems that are no rivals, then the rivals."""
        return (*self.systems, *self.rivals)


@dataclass(frozen=True)
class FrontPoint:
    """A point of `pareto.json`: a system on the validation set."""

    name: str
    kind: SystemKind
    system_prompt: str
    deltas: tuple[FiniteFloat, ...]
    mean_tokens: FiniteFloat
    mean_tokens_interval: Bounds
    share_correct: Share
    share_correct_interval: Bounds
    fitness: FiniteFloat
    is_on_front: bool
    is_winner: bool


@dataclass(frozen=True)
class FrontFile:
    """`pareto.json`."""

    set: Literal["validation"]
    points: tuple[FrontPoint, ...]
