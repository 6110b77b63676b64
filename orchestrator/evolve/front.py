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

from orchestrator.evolve.systems import Point

WORTH = 0.5
"""Of the plain model's share of correct answers: a system with less is no member of a front, however short it is."""


LONGEST = 1.5
"""Times the plain model's tokens: up to there the area counts that a front dominates."""


def front(points: Sequence[Point]) -> list[int]:
    """The indices of the points that no other dominates, fewest tokens first; of equal points the first.

    A point dominates another that has neither fewer tokens nor more correct answers, and is not equal to it.
    """
    if not points:
        return []
    kept = np.flatnonzero(moocore.is_nondominated(_array(points), maximise=[False, True]))
    return sorted(kept.tolist(), key=lambda index: points[index].mean_tokens)


def hypervolume(points: Sequence[Point], longest: float) -> float:
    """The dominated share, from 0 to 1, of the rectangle of `longest` tokens by all answers correct.

    The reference is `longest` mean tokens, the plain model's times a factor, with no correct answer.  Points with more
    tokens add nothing.
    """
    return float(moocore.hypervolume(_array(points), ref=[longest, 0.0], maximise=[False, True])) / longest


def hypervolume_gain(added: Sequence[Point], points: Sequence[Point], longest: float) -> float:
    """By how much the hypervolume of `points` rises with the points `added` (see `hypervolume`)."""
    return hypervolume([*points, *added], longest) - hypervolume(points, longest)


def halve(points: Sequence[Point], keep: int, least: float = 0.0) -> list[int]:
    """The indices, ascending, of the `keep` points that NSGA-II selects; of all where there are no more.

    Points with less than the share `least` of correct answers are left out.
    """
    individuals = [_Individual(index, point) for index, point in enumerate(points) if point.correct >= least]
    return sorted(individual.index for individual in tools.selNSGA2(individuals, min(keep, len(individuals))))


class _Fitness(base.Fitness):  # type: ignore[misc]  # DEAP has no types
    weights = (-1.0, 1.0)


class _Individual:
    """A point as DEAP selects it."""

    def __init__(self, index: int, point: Point) -> None:
        self.index = index
        self.fitness: Any = _Fitness(point)


def _array(points: Sequence[Point]) -> NDArray[np.float64]:
    return np.array(points, dtype=np.float64).reshape(-1, 2)
