"""Racing: a candidate answers a part of the questions first, and stops when it can no longer win a place.

V. Heidrich-Meisner and C. Igel, "Hoeffding and Bernstein Races for Selecting Policies in Evolutionary Direct Policy
Search", ICML 2009, 401-408, after O. Maron and A. W. Moore, "Hoeffding Races", NIPS 6 (1994).  The bounds here are
paired: two candidates are compared question by question, so that hard and easy questions do not blur the difference.
Their standard error has the correction for a finite set: after all questions nothing is left to chance.

All candidates see the questions in one order.  After each rung those that stay are chosen: `survivors` by fitness,
`front_survivors` by tokens and correctness.  The figures of a candidate that stopped are `projected` to all questions,
so that an optimiser can rank it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Value = Callable[[float, float], float]
"""What ranks candidates, of (mean tokens, share of right answers): `tasks.objective.additive_fitness_of`."""

MOST_RUNGS = 10
"""More rungs cost more time than they save."""
LEAST_ANSWERS = 5
"""With fewer answers their spread is not known well enough."""


@dataclass(frozen=True)
class Race:
    """After how many questions candidates are compared, and how sure a decision must be.

    rungs: numbers of answered questions, ascending; the last is all of them.  level: of each one-sided bound.
    tolerance: a difference of correctness, as a share, that does not keep a candidate in the race for the front.
    """

    rungs: tuple[int, ...]
    level: float = 0.95
    tolerance: float = 0.0

    def __post_init__(self) -> None:
        """Raises: ValueError for rungs that do not ascend or begin too low, and for a level that is no probability."""
        if not self.rungs or self.rungs[0] < LEAST_ANSWERS or list(self.rungs) != sorted(set(self.rungs)):
            raise ValueError(f"the rungs {list(self.rungs)} do not ascend from at least {LEAST_ANSWERS} questions")
        if len(self.rungs) > MOST_RUNGS:
            raise ValueError(f"{len(self.rungs)} rungs are more than {MOST_RUNGS}")
        if not 0.5 <= self.level < 1:
            raise ValueError(f"a level of {self.level} is not between 0.5 and 1")

    @property
    def total(self) -> int:
        return self.rungs[-1]


@dataclass(frozen=True)
class Partial:
    """The answers of one candidate to the first k questions of the common order: tokens [k], verdicts [k].

    With several samples a question both are means over them.
    """

    tokens: tuple[float, ...]
    correct: tuple[float, ...]

    def __post_init__(self) -> None:
        """Raises: ValueError when the two differ in length."""
        if len(self.tokens) != len(self.correct):
            raise ValueError(f"{len(self.tokens)} answers and {len(self.correct)} verdicts")

    def __len__(self) -> int:
        return len(self.tokens)

    def means(self, count: int) -> tuple[float, float]:
        """Mean tokens and share of right answers of the first `count`."""
        return sum(self.tokens[:count]) / count, sum(self.correct[:count]) / count


def make_race(total: int, first: float = 0.1, factor: float = 2.0, level: float = 0.95) -> Race:
    """Rungs from a share `first` of all questions, each `factor` times the one before.

    With few questions there is one rung, all of them: no race.
    """
    rungs = []
    rung = max(LEAST_ANSWERS, math.ceil(first * total))
    while rung < total:
        rungs.append(rung)
        rung = max(rung + 1, math.ceil(factor * rung))
    return Race((*rungs, max(total, LEAST_ANSWERS)), level)


def survivors(field: Mapping[int, Partial], places: int, race: Race, value: Value) -> frozenset[int]:
    """The candidates that may still be among the best `places`.

    `field` may hold candidates that are complete, such as the best of an earlier generation: they win places, too.  A
    candidate stops when each of `places` others is surely better.  Raises: ValueError for no places.
    """
    if places < 1:
        raise ValueError(f"a race for {places} places has no winner")
    count = {index: len(partial) for index, partial in field.items()}
    ranked = sorted(field, key=lambda index: value(*field[index].means(count[index])), reverse=True)
    leading = ranked[: places + 1]
    return frozenset(
        index
        for index in field
        if sum(surely_better(field[o], field[index], race, value) for o in leading if o != index) < places
    )


def front_survivors(field: Mapping[int, Partial], race: Race) -> frozenset[int]:
    """The candidates that no other surely beats in tokens while having as many right, up to the tolerance."""
    return frozenset(
        index
        for index, partial in field.items()
        if not any(surely_beaten(partial, other, race) for o, other in field.items() if o != index)
    )


def surely_better(a: Partial, b: Partial, race: Race, value: Value) -> bool:
    """Whether the fitness of `a` on all questions is higher than that of `b`, at the level of the race.

    The fitness is linear between the two candidates' points (its secants), so that each question has a share in the
    difference; the shares add up to the difference itself.
    """
    count = _common(a, b)
    (tokens_a, correct_a), (tokens_b, correct_b) = a.means(count), b.means(count)
    by_tokens = _slope(lambda tokens: value(tokens, correct_a), tokens_b, tokens_a)
    by_correct = _slope(lambda correct: value(tokens_b, correct), correct_b, correct_a)
    shares = by_tokens * _differences(a.tokens, b.tokens, count) + by_correct * _differences(
        a.correct, b.correct, count
    )
    return _lower_bound(shares, by_correct, race) > 0


def surely_beaten(partial: Partial, other: Partial, race: Race) -> bool:
    """Whether `other` has fewer tokens on all questions, and not fewer right by more than the tolerance."""
    count = _common(partial, other)
    fewer = _differences(partial.tokens, other.tokens, count)
    more_right = _differences(other.correct, partial.correct, count)
    return _lower_bound(fewer, 0.0, race) > 0 and _lower_bound(more_right, 1.0, race) >= -race.tolerance


def projected(partial: Partial, reference: Partial) -> tuple[float, float]:
    """Mean tokens and share of right answers on all questions, estimated from those that were answered.

    `reference` is a complete candidate.  Its mean tokens are multiplied by the ratio of the two on the questions that
    both have answered (W. G. Cochran's ratio estimator), and its share of right answers is moved by their difference.
    Both are closer than the means of those questions alone.
    Raises: ValueError when the reference has fewer answers.
    """
    count = len(partial)
    if len(reference) < count:
        raise ValueError(f"a reference of {len(reference)} answers for a candidate of {count}")
    tokens, correct = partial.means(count)
    tokens_there, correct_there = reference.means(count)
    tokens_all, correct_all = reference.means(len(reference))
    ratio = tokens / tokens_there if tokens_there else 1.0
    return tokens_all * ratio, min(1.0, max(0.0, correct_all + correct - correct_there))


def _lower_bound(differences: NDArray[np.float64], verdict_weight: float, race: Race) -> float:
    """The one-sided lower bound of the mean difference over all questions, from those that were answered.

    Half an answer gained and half an answer lost are added to the spread (A. Agresti and Y. Min 2005): where no verdict
    differs among the first questions, one still may later.
    """
    count = len(differences)
    mean = float(differences.mean())
    remaining = 1 - count / race.total
    if remaining <= 0:
        return mean
    squares = float(((differences - mean) ** 2).sum()) + verdict_weight**2
    error = math.sqrt(squares / count / count * remaining)
    return mean - _student(race.level, count - 1) * error


def _student(level: float, freedom: int) -> float:
    """The quantile of Student's t, by the first terms of its expansion around the normal one."""
    z = NormalDist().inv_cdf(level)
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def _slope(function: Callable[[float], float], start: float, end: float) -> float:
    """The secant between two points, or the derivative where they are one."""
    if start == end:
        step = 1e-4 * max(1.0, abs(start))
        return (function(start + step) - function(start - step)) / (2 * step)
    return (function(end) - function(start)) / (end - start)


def _differences(a: Sequence[float], b: Sequence[float], count: int) -> NDArray[np.float64]:
    return np.array(a[:count], dtype=np.float64) - np.array(b[:count], dtype=np.float64)


def _common(a: Partial, b: Partial) -> int:
    """How many questions both have answered.  Raises: ValueError when too few to compare."""
    count = min(len(a), len(b))
    if count < LEAST_ANSWERS:
        raise ValueError(f"{count} common answers are too few to compare; {LEAST_ANSWERS} are needed")
    return count
