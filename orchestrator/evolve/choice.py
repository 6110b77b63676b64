"""Which system wins: Pareto Testing (Laufer-Goldshtein, Fisch, Barzilay and Jaakkola 2023, arXiv 2210.07913).

Members of the front are put in order by training questions that no fitness used.  Then they are tested one after the
other on the validation questions, each against the plain model: is a loss of correct answers of `margin` or more
excluded (Tango's score test, one-sided 95 %)?  Testing stops at the first member for which it is not.  So the
probability that any member passes that truly loses the margin or more is at most 5 %, asymptotically, whatever the
number of members, and any choice among those that passed is valid (fixed-sequence testing, as in Learn then Test:
Angelopoulos et al. 2021, arXiv 2110.01052).  This holds for an order that no validation answer has influenced.

Shares of correct answers are from 0 to 1 throughout.

The front consists of points of mean tokens (fewer is better) and the share of correct answers (more is better).  Its
hypervolume is the area that it dominates (Zitzler and Thiele 1999).  Halving is the selection of NSGA-II (Deb et al.
2002): front after front, and of the last one those in the least crowded places.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import moocore
import numpy as np
from deap import base, tools
from numpy.typing import NDArray

from orchestrator.evolve.systems import Book, Member, MemberTest, System, SystemKind
from orchestrator.report.statistics import (
    Measurement,
    Point,
    correctness_change,
    non_inferiority,
    questions_needed,
)

Goal = Literal["shortest", "most_right"]
WORTH = 0.5
"""Of the plain model's share of correct answers: a system with less is no member of a front, however short it is."""
LONGEST = 1.5
"""Times the plain model's tokens: up to there the area counts that a front dominates."""
STEP = 0.04
"""By what share of the plain model's tokens a member must be shorter than the one tested before it."""


def least_correct(plain: System) -> float:
    """The share of correct training answers that a member of the front must have."""
    return WORTH * plain.on("training").point.correct


def longest_of(plain: Measurement) -> float:
    """The tokens up to which an area counts."""
    return LONGEST * max(plain.mean_tokens, 1.0)


def front(points: Sequence[Point]) -> list[int]:
    """The indices of the points that no other dominates, fewest tokens first; of equal points the first.

    A point dominates another that has neither fewer tokens nor more correct answers, and is not equal to it.
    """
    if not points:
        return []
    kept = np.flatnonzero(moocore.is_nondominated(_array(points), maximise=[False, True]))
    return sorted(kept.tolist(), key=lambda index: points[index].mean_tokens)


def members_of(points: Sequence[Point], least: float) -> list[int]:
    """The indices of the points on the front, without those that have fewer correct answers than the share `least`."""
    return [i for i in front(points) if points[i].correct >= least]


def front_of(book: Book, *kinds: SystemKind) -> list[System]:
    """The members of the front on the training questions, of these kinds or of all, the fewest tokens first."""
    systems = [one for one in book.having("training") if one.kind in kinds or not kinds]
    points = [one.on("training").point for one in systems]
    return [systems[index] for index in members_of(points, least_correct(book.plain))]


def hypervolume(points: Sequence[Point], longest: float) -> float:
    """The dominated share, from 0 to 1, of the rectangle of `longest` mean tokens by all answers correct."""
    return float(moocore.hypervolume(_array(points), ref=[longest, 0.0], maximise=[False, True])) / longest


def hypervolume_gain(added: Sequence[Point], points: Sequence[Point], longest: float) -> float:
    """By how much the hypervolume of `points` rises with the points `added` (see `hypervolume`)."""
    return hypervolume([*points, *added], longest) - hypervolume(points, longest)


def area_of_steps(tokens: NDArray[np.float64], correct: NDArray[np.float64], longest: float) -> NDArray[np.float64]:
    """The area below the steps of a front, as `hypervolume` gives it, where other questions have chosen its members.

    tokens, correct: [..., m] mean tokens and shares of the members, in the order of the front.  A member that is no
    better here than the one before it lowers the area; the hypervolume of these points would count only what is better
    by chance, and rise with the number of members.
    """
    ends = np.minimum(np.concatenate([tokens, np.full((*tokens.shape[:-1], 1), longest)], axis=-1), longest)
    area: NDArray[np.float64] = (np.diff(ends, axis=-1) * correct).sum(axis=-1) / longest
    return area


def halve(points: Sequence[Point], keep: int, least: float = 0.0) -> list[int]:
    """The indices, ascending, of the `keep` points that NSGA-II selects; of all where there are no more.

    Points with less than the share `least` of correct answers are left out.
    """
    individuals = [_Individual(index, point) for index, point in enumerate(points) if point.correct >= least]
    return sorted(individual.index for individual in tools.selNSGA2(individuals, min(keep, len(individuals))))


def additions(added: Sequence[Point], known: Sequence[Point], keep: int, least: float) -> list[int]:
    """The indices of at most `keep` of the points `added`: of those on one front with the known ones (see `halve`)."""
    own = [i - len(known) for i in members_of([*known, *added], least) if i >= len(known)]
    return [own[i] for i in halve([added[i] for i in own], keep)]


class _Fitness(base.Fitness):  # type: ignore[misc]  # DEAP has no types
    weights = (-1.0, 1.0)


class _Individual:
    """A point as DEAP selects it."""

    def __init__(self, index: int, point: Point) -> None:
        self.index = index
        self.fitness: Any = _Fitness(point)


def _array(points: Sequence[Point]) -> NDArray[np.float64]:
    return np.array(points, dtype=np.float64).reshape(-1, 2)


def order_members(
    members: Mapping[str, Measurement], plain: Measurement, margin: float, goal: Goal, most: int
) -> tuple[Member, ...]:
    """The sequence of at most `most` members to test, the largest bound first.

    All have answered the same ordering questions.  Not worth a test are members longer than the plain model, and those
    that gain nothing in the goal over one with as large a bound; for "shortest" also those that save hardly more than
    that one or than the plain model, so that the few tests reach from the surest to the boldest.
    """
    tokens, correct = plain.point
    step = STEP * tokens if goal == "shortest" else 0.0

    def gain(member: Member) -> float:
        """Tokens saved, or how far the share of correct answers is above the margin."""
        return tokens - member.mean_tokens if goal == "shortest" else member.correct - correct + margin

    found = []
    for name, answered in members.items():
        change = correctness_change(plain.correct, answered.correct)
        bound = non_inferiority(change, 0.0).bound  # which does not depend on the margin
        found.append(Member(name, answered.mean_tokens, change.after / change.count, bound))
    order: list[Member] = []
    for member in sorted(found, key=lambda member: (-member.bound, -gain(member), member.mean_tokens)):
        reached = gain(order[-1]) if order else 0.0
        if member.mean_tokens <= tokens and gain(member) > reached + step:
            order.append(member)
    return tuple(order[:most])


def test_members(
    order: Sequence[Member], plain: Sequence[bool], verdicts: Callable[[str], Sequence[bool]], margin: float
) -> tuple[MemberTest, ...]:
    """The tests in order, up to the first member that is not shown to lose less than `margin`.

    plain: [n] whether the plain model's answers to the validation questions are correct.  `verdicts` gives those of the
    member of a name; it is called for one member at a time, so none need exist before the order does.
    """
    tests: list[MemberTest] = []
    for member in order:
        change = correctness_change(plain, verdicts(member.name))
        tests.append(MemberTest(member.name, change, non_inferiority(change, margin)))
        if not tests[-1].result.is_shown:
            break
    return tuple(tests)


def choose(order: Sequence[Member], tests: Sequence[MemberTest], goal: Goal) -> Member | None:
    """The winner among the members that passed, by what the ordering questions show; None where the plain model wins.

    "shortest" is the one with the fewest tokens; "most_right" the one with the most correct answers, then with the
    fewest tokens.
    """
    shown = {test.name for test in tests if test.result.is_shown}
    members = [member for member in order if member.name in shown]
    if goal == "shortest":
        return min(members, key=lambda member: (member.mean_tokens, -member.correct), default=None)
    return min(members, key=lambda member: (-member.correct, member.mean_tokens), default=None)


def questions_to_show(test: MemberTest) -> int | None:
    """How many questions would show with a chance of 80 % what was observed; None for a loss of the margin or more."""
    change, distance = test.change, test.result.margin + test.change.difference.value
    return questions_needed(distance, (change.gained + change.lost) / change.count) if distance > 0 else None
