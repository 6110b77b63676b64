"""How surely one system is better than another on the same questions: the paired bootstrap of their fitness.

The best of several systems on a few dozen questions is partly so by chance.  So the simpler one stays, unless another
is shown to be better: its fitness is higher in nearly all resamples.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from orchestrator.report.inference import LEVEL, resampled_counts
from tasks.models import Objective
from tasks.objective import additive_fitness_of, relative_to

RESAMPLES = 2_000

Means = tuple[float, float]
"""Mean tokens and share of right answers."""


class Answered(NamedTuple):
    """Tokens [n] and verdicts [n] of one system on n questions; of several answers to a question their means."""

    tokens: NDArray[np.float64]
    correct: NDArray[np.float64]

    @classmethod
    def of(cls, measured: Sequence[tuple[Sequence[float], Sequence[float]]]) -> Answered:
        """From the tokens and the verdicts of each time that the same questions were asked, in one order."""
        tokens, correct = (np.array(rows, dtype=np.float64).mean(0) for rows in zip(*measured, strict=True))
        return cls(tokens, correct)


def is_shown_better(
    ours: Answered, theirs: Answered, plain: Answered, objective: Objective, seed: int, tried: int = 1
) -> bool:
    """Whether `ours` has the higher fitness in 95 % of the resamples (one-sided); see `share_better`.

    The level is corrected for `tried`, of how many systems `ours` may be the best: see `required_share`.
    """
    return share_better(ours, theirs, plain, objective, seed) >= required_share(tried)


def required_share(tried: int) -> float:
    """The least share of resamples in which the best of `tried` systems must be better (Bonferroni)."""
    return 1 - (1 - LEVEL) / tried


def share_better(ours: Answered, theirs: Answered, plain: Answered, objective: Objective, seed: int) -> float:
    """In which share of resamples of the questions, drawn with replacement, `ours` has the higher fitness.

    All three are answers to the same n questions in the same order; fitness is relative to `plain` in each resample.
    """
    counts = resampled_counts(len(plain.tokens), seed, RESAMPLES)
    drawn = zip(_means_drawn(ours, counts), _means_drawn(theirs, counts), _means_drawn(plain, counts), strict=True)
    return sum(_is_better(*means, objective) for means in drawn) / RESAMPLES


def _is_better(ours: Means, theirs: Means, plain: Means, objective: Objective) -> bool:
    here = relative_to(objective, *plain)
    return additive_fitness_of(*ours, here) > additive_fitness_of(*theirs, here)


def _means_drawn(answered: Answered, counts: NDArray[np.uint8]) -> list[Means]:
    """Mean tokens and share of right answers in each resample, from how often it has each question: counts [r, n]."""
    tokens, correct = ((counts @ values / counts.shape[1]).tolist() for values in answered)
    return list(zip(tokens, correct, strict=True))
