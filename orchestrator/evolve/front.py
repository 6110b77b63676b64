"""The front of systems: points of mean tokens (fewer is better) and the share of correct answers (more is better).

The hypervolume of a front is the area that it dominates (Zitzler and Thiele 1999), computed by moocore.  Halving is the
selection of NSGA-II (Deb et al. 2002), computed by DEAP: front after front, and of the last one those in the least
crowded places.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import moocore
import numpy as np
from deap import base, tools
from numpy.typing import NDArray

from orchestrator.evolve.systems import Book, System, SystemKind
from orchestrator.report.statistics import Measurement, Point

WORTH = 0.5
"""Of the plain model's share of correct answers: a system with less is no member of a front, however short it is."""
LONGEST = 1.5
"""Times the plain model's tokens: up to there the area counts that a front dominates."""


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
    """The dominated share, from 0 to 1, of the rectangle of `longest` tokens by all answers correct.

    The reference is `longest` mean tokens, the plain model's times a factor, with no correct answer.  Points with more
    tokens add nothing.
    """
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
