"""Paired statistics of two sets of answers to the same questions.

Each question is its own control, so the difference between easy and hard questions adds no variance.  The interval is
the percentile bootstrap (Efron 1979, "Bootstrap Methods: Another Look at the Jackknife"); the test is McNemar's
(McNemar 1947, "Note on the sampling error of the difference between correlated proportions"), in its exact binomial
form.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class JudgedAnswer:
    """One answer and its verdict. `tokens` does not count the end-of-turn token."""

    example: str
    tokens: int
    is_correct: bool
    text: str
    question: str
    gold: str
    reasoning: str


@dataclass(frozen=True)
class Comparison:
    """Answers to one set of examples `before` and `after` steering. `name` is, for example, "training set"."""

    name: str
    before: tuple[JudgedAnswer, ...]
    after: tuple[JudgedAnswer, ...]
    fitness_before: float | None = None
    fitness_after: float | None = None

    def pairs(self) -> Iterator[tuple[JudgedAnswer, JudgedAnswer]]:
        """The two answers to each example, in the order of `before`."""
        after = {graded.example: graded for graded in self.after}
        for graded in self.before:
            yield graded, after[graded.example]


RESAMPLES = 2000


@dataclass(frozen=True)
class Interval:
    """The mean of the differences and its 95 % bootstrap interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class PairedResult:
    """`tokens_*` are means over the answers.  `gained` wrong answers became correct, `lost` correct ones became wrong.

    `p` is McNemar's.
    """

    count: int
    tokens_before: float
    tokens_after: float
    tokens: Interval
    correct_before: int
    correct_after: int
    gained: int
    lost: int
    p: float


def paired_statistics(comparison: Comparison, rng: random.Random) -> PairedResult:
    pairs = list(comparison.pairs())
    gained = sum(not before.is_correct and after.is_correct for before, after in pairs)
    lost = sum(before.is_correct and not after.is_correct for before, after in pairs)
    return PairedResult(
        count=len(pairs),
        tokens_before=math.fsum(before.tokens for before, _ in pairs) / len(pairs),
        tokens_after=math.fsum(after.tokens for _, after in pairs) / len(pairs),
        tokens=bootstrap([after.tokens - before.tokens for before, after in pairs], rng),
        correct_before=sum(before.is_correct for before, _ in pairs),
        correct_after=sum(after.is_correct for _, after in pairs),
        gained=gained,
        lost=lost,
        p=mcnemar(gained, lost),
    )


def bootstrap(differences: Sequence[float], rng: random.Random, resamples: int = RESAMPLES) -> Interval:
    """The mean of `differences`, and the 2.5th and 97.5th percentile of the means of their resamples."""
    count = len(differences)
    means = sorted(math.fsum(rng.choices(differences, k=count)) / count for _ in range(resamples))
    mean = math.fsum(differences) / count
    # With very few resamples the mean can lie outside the percentiles; the interval must contain it.
    return Interval(mean, min(mean, _quantile(means, 0.025)), max(mean, _quantile(means, 0.975)))


def _quantile(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def mcnemar(gained: int, lost: int) -> float:
    """The two-sided p: the probability of a split at least as uneven when both directions are equally likely."""
    changes = gained + lost
    ways = tail = 1
    for k in range(min(gained, lost)):
        ways = ways * (changes - k) // (k + 1)
        tail += ways
    # Integers until the division: 2 ** 1024 does not fit a float.
    return min(1.0, 2 * tail / (1 << changes))


def paired_sentence(measured: PairedResult) -> str:
    """The result of the test as text."""
    if measured.gained + measured.lost == 0:
        return "no answer changed sides"
    counts = f"gained {measured.gained}, lost {measured.lost}"
    if measured.p >= 0.05:
        return f"{counts}: could well be chance (p = {measured.p:.2f})"
    direction = "more" if measured.gained > measured.lost else "fewer"
    strength = "p < 0.001" if measured.p < 0.001 else f"p = {measured.p:.3f}"
    return f"{counts}: {direction} are right, hardly by chance ({strength})"
