"""Which system wins on the validation set: what the search started from, unless a finalist is shown to be better.

The best of several finalists seems better than it is, since their luck differs.  So it wins over the best start only
where its fitness is higher in `LEVEL` of the paired bootstrap's resamples, corrected for the number of finalists.
The start has been chosen in part on the validation set, which makes it seem better there: that is to the finalists'
disadvantage.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from orchestrator.report.inference import resampled_counts
from orchestrator.report.systems import MeasuredSystem, Measurement
from tasks.models import Objective
from tasks.objective import additive_fitness_of, relative_to

LEVEL = 0.95
"""Of the decision for a finalist, one-sided."""
RESAMPLES = 2_000

Answered = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Tokens [n] and verdicts [n]; with repeats their means over all measurements of a question."""
Means = tuple[float, float]
"""Mean tokens and share of right answers."""


def choose_winner(
    finalists: Sequence[MeasuredSystem],
    starts: Sequence[MeasuredSystem],
    plain: Measurement,
    objective: Objective,
    seed: int,
) -> MeasuredSystem:
    """The best start, or the best finalist where it is shown to be better, or where there is no start.

    All were measured on the same questions, on which `plain` is the plain model.
    """
    best = _highest(finalists)
    if not starts:
        return best
    start = _highest(starts)
    level = 1 - (1 - LEVEL) / len(finalists)
    return best if share_better(best, start, plain, objective, seed) >= level else start


def share_better(
    system: MeasuredSystem, other: MeasuredSystem, plain: Measurement, objective: Objective, seed: int
) -> float:
    """In which share of resamples of the questions, drawn with replacement, the system has the higher fitness."""
    asked = plain.examples
    ours, theirs, reference = _answered(system, asked), _answered(other, asked), _means_of((plain,), asked)
    counts = resampled_counts(len(asked), seed, RESAMPLES)
    drawn = zip(_means_drawn(ours, counts), _means_drawn(theirs, counts), _means_drawn(reference, counts), strict=True)
    return sum(_is_better(*means, objective) for means in drawn) / RESAMPLES


def _is_better(ours: Means, theirs: Means, plain: Means, objective: Objective) -> bool:
    here = relative_to(objective, *plain)
    return additive_fitness_of(*ours, here) > additive_fitness_of(*theirs, here)


def _answered(system: MeasuredSystem, asked: Sequence[str]) -> Answered:
    assert system.validation is not None, "finalists and starts are always measured"
    return _means_of((system.validation, *system.repeats), asked)


def _means_of(measurements: Sequence[Measurement], asked: Sequence[str]) -> Answered:
    ordered = [one.on(asked) for one in measurements]
    tokens = np.array([one.tokens for one in ordered], dtype=np.float64)
    return tokens.mean(0), np.array([one.correct for one in ordered], dtype=np.float64).mean(0)


def _means_drawn(answered: Answered, counts: NDArray[np.uint8]) -> list[Means]:
    """Mean tokens and share of right answers in each resample, from how often it has each question: counts [r, n]."""
    tokens, correct = ((counts @ values / counts.shape[1]).tolist() for values in answered)
    return list(zip(tokens, correct, strict=True))


def _highest(systems: Sequence[MeasuredSystem]) -> MeasuredSystem:
    """That of the highest mean fitness; of equals the one without deltas, since no vector is better, else the first."""
    return max(systems, key=lambda system: (_fitness(system), not any(system.deltas)))


def _fitness(system: MeasuredSystem) -> float:
    if system.validation is None:
        return -math.inf
    measurements = (system.validation, *system.repeats)
    return sum(one.fitness for one in measurements) / len(measurements)
