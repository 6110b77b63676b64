"""Answers with their verdicts, and what those of one system, or of two to the same questions, can show.

Paired, each question is its own control.  The ratio of tokens has a percentile bootstrap interval (Efron 1979) over
questions.  The difference of correctness has the score interval for paired proportions (Tango 1998, Statistics in
Medicine 17), which stays valid where few answers or none change sides.  Non-inferiority is that interval's one-sided
lower bound against a margin.  Intervals of one system alone may overlap although the paired comparison shows a
difference: questions differ more than systems do.

Correctness is the share of correct answers, from 0 to 1: "0.03" is three points.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import NonNegativeInt

from orchestrator.report.format import format_points, format_signed
from tasks.objective import LEAST_TOKENS
from tasks.records import JudgedAnswer

RESAMPLES = 10_000
ALONE = 2_000
"""The resamples for one system."""
LEVEL = 0.95
POWER = 0.8
LEAST_CHANGES = math.ceil(math.log(1 - LEVEL) / math.log(0.5))
"""Of fewer, all are in one direction by chance in more than 5 of 100 cases."""
_DRAWN_AT_ONCE = 1_000_000  # questions of resamples: bounds the memory
_NORMAL = NormalDist()
_Z = _NORMAL.inv_cdf((1 + LEVEL) / 2)
_STEPS = 60  # of a bisection: far below the precision of what is measured


class Point(NamedTuple):
    """Mean tokens, and the share of correct answers from 0 to 1."""

    mean_tokens: float
    correct: float


@dataclass(frozen=True)
class Measurement:
    """The answers of a system to one set of questions, each field [n], in the order of `examples`.

    tokens: of each answer, without the token that ended it; right: the judge's verdict; whole: the answer is not cut;
    loops: it repeated itself to the cap.
    """

    examples: tuple[str, ...]
    tokens: tuple[NonNegativeInt, ...]
    right: tuple[bool, ...]
    whole: tuple[bool, ...]
    loops: tuple[bool, ...]

    @property
    def correct(self) -> tuple[bool, ...]:
        """Right and whole."""
        return tuple(right and whole for right, whole in zip(self.right, self.whole, strict=True))

    @property
    def mean_tokens(self) -> float:
        return sum(self.tokens) / len(self.tokens)

    @property
    def point(self) -> Point:
        return Point(self.mean_tokens, sum(self.correct) / len(self.correct))


@dataclass(frozen=True)
class Comparison:
    """Answers to one set of examples `before` and `after` steering, by `system`; `name` is as in "training set"."""

    name: str
    before: tuple[JudgedAnswer, ...]
    after: tuple[JudgedAnswer, ...]
    system: str = ""

    def pairs(self) -> Iterator[tuple[JudgedAnswer, JudgedAnswer]]:
        """The two answers to each example, in the order of `before`."""
        after = {graded.example: graded for graded in self.after}
        for graded in self.before:
            yield graded, after[graded.example]


@dataclass(frozen=True)
class Estimate:
    """A measured value and its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class TokenRatio:
    """Mean tokens after, divided by mean tokens before; a mean below one token counts as one."""

    before: float
    after: float
    ratio: Estimate


@dataclass(frozen=True)
class CorrectnessChange:
    """Correct answers of `count`, and how many changed sides; `difference` (after minus before) is a share."""

    count: int
    before: int
    after: int
    gained: int
    lost: int
    difference: Estimate


@dataclass(frozen=True)
class NonInferiority:
    """Whether a loss of `margin` or more is excluded; `bound` is the one-sided lower bound of the difference."""

    margin: float
    bound: float
    is_shown: bool


def token_ratio(before: Sequence[int], after: Sequence[int], seed: int, resamples: int = RESAMPLES) -> TokenRatio:
    """The paired ratio of tokens; before and after: [n] tokens of the answers to the same questions, in one order."""
    pairs = np.array([before, after], dtype=np.float64)
    first, second = pairs.mean(axis=1).tolist()
    means = np.maximum(resampled_means(pairs, seed, resamples), LEAST_TOKENS)
    ratio = max(second, LEAST_TOKENS) / max(first, LEAST_TOKENS)
    return TokenRatio(first, second, percentile_interval(ratio, means[:, 1] / means[:, 0]))


def percentile_interval(value: float, resampled: NDArray[np.float64]) -> Estimate:
    """The interval of a value from its resamples [r]."""
    low, high = np.quantile(resampled, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]).tolist()
    return Estimate(value, min(value, low), max(value, high))


def resampled_means(values: NDArray[np.float64], seed: int, resamples: int = RESAMPLES) -> NDArray[np.float64]:
    """The means [r, k] of k rows of values [k, n] in each resample of their n columns, the questions."""
    count = values.shape[1]
    drawn = resampled_counts(count, seed, resamples)
    rows = max(1, _DRAWN_AT_ONCE // count)
    chunks = (drawn[start : start + rows].astype(np.float64) for start in range(0, resamples, rows))
    means: NDArray[np.float64] = np.concatenate([chunk @ values.T for chunk in chunks]) / count
    return means


@lru_cache(maxsize=8)
def resampled_counts(count: int, seed: int, resamples: int) -> NDArray[np.uint8]:
    """How often each question is in each resample: [resamples, count]; a report has dozens of intervals."""
    rng = np.random.default_rng(seed)
    drawn = np.empty((resamples, count), dtype=np.uint8)
    chunk = max(1, _DRAWN_AT_ONCE // count)
    for start in range(0, resamples, chunk):
        rows = min(chunk, resamples - start)
        picked = rng.integers(0, count, size=(rows, count)) + count * np.arange(rows)[:, None]
        drawn[start : start + rows] = np.bincount(picked.ravel(), minlength=rows * count).reshape(rows, count)
    drawn.flags.writeable = False
    return drawn


def mean_interval(values: Sequence[int], seed: int) -> Estimate:
    """The mean of `values` [n] with its percentile bootstrap interval (Efron 1979)."""
    array = np.array([values], dtype=np.float64)
    return percentile_interval(float(array.mean()), resampled_means(array, seed, ALONE)[:, 0])


def share_interval(successes: int, count: int) -> Estimate:
    """A share with its Wilson score interval (Wilson 1927)."""
    share = successes / count
    centre = (share + _Z**2 / (2 * count)) / (1 + _Z**2 / count)
    half = _Z / (1 + _Z**2 / count) * math.sqrt(share * (1 - share) / count + _Z**2 / (4 * count**2))
    return Estimate(share, max(0.0, min(share, centre - half)), min(1.0, max(share, centre + half)))


def correctness_change(before: Sequence[bool], after: Sequence[bool]) -> CorrectnessChange:
    """The paired change of correctness; before and after: [n] verdicts on the same questions, in one order."""
    count = len(before)
    gained = sum(b < a for b, a in zip(before, after, strict=True))
    lost = sum(b > a for b, a in zip(before, after, strict=True))
    low, high = lower_bound(count, gained, lost, _Z), -lower_bound(count, lost, gained, _Z)
    return CorrectnessChange(count, sum(before), sum(after), gained, lost, Estimate((gained - lost) / count, low, high))


def non_inferiority(change: CorrectnessChange, margin: float) -> NonInferiority:
    """The one-sided test at 95 % that less than `margin` of all answers were lost; with 0, that more are correct."""
    count, gained, lost = change.count, change.gained, change.lost
    bound = lower_bound(count, gained, lost, _NORMAL.inv_cdf(LEVEL))
    return NonInferiority(margin, bound, bound > -margin)


@lru_cache(maxsize=1 << 16)  # many systems on the same questions have the same counts
def lower_bound(count: int, gained: int, lost: int, z: float) -> float:
    """The lowest difference of paired proportions whose score statistic does not exceed `z`."""
    low, high = -1.0, (gained - lost) / count
    for _ in range(_STEPS if low < high else 0):
        middle = (low + high) / 2
        if _score_statistic(count, gained, lost, middle) > z:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _score_statistic(count: int, gained: int, lost: int, difference: float) -> float:
    """Tango's z of the observed counts where the true difference is `difference`.

    The share of lost answers is at its most likely value under that difference: the larger root of a quadratic.
    """
    a = 2.0 * count
    b = -gained - lost + (2.0 * count - gained + lost) * difference
    c = -lost * difference * (1 - difference)
    share_lost = (math.sqrt(max(0.0, b * b - 4 * a * c)) - b) / (2 * a)
    variance = count * (2 * share_lost + difference * (1 - difference))
    numerator = gained - lost - count * difference
    if variance <= 0:
        return math.inf if numerator > 0 else 0.0
    return numerator / math.sqrt(variance)


def questions_needed(loss: float, discordant: float) -> int:
    """How many paired questions show a loss this large with a chance of 80 %, by a one-sided test at 95 %.

    `discordant` is the share of answers that change sides, either way; at least the loss itself must.  Where all
    changes are losses, an exact sign test still needs five of them.
    """
    z, power, changing = _NORMAL.inv_cdf(LEVEL), _NORMAL.inv_cdf(POWER), max(discordant, loss)
    spread = z * math.sqrt(changing) + power * math.sqrt(max(0.0, changing - loss * loss))
    return math.ceil(max((spread / loss) ** 2, LEAST_CHANGES / loss))


def least_questions(margin: float) -> int:
    """How many questions exclude a loss of `margin` where no answer changes sides."""
    return next(n for n in count(1) if lower_bound(n, 0, 0, _NORMAL.inv_cdf(LEVEL)) > -margin)


@dataclass(frozen=True)
class Paired:
    """The ratio of tokens, the change of correct answers, and whether a loss of the margin or more is excluded."""

    ratio: TokenRatio
    change: CorrectnessChange
    loss: NonInferiority


def pair(before: Measurement, after: Measurement, margin: float, seed: int) -> Paired:
    """`after` against `before`, on the questions that both were asked; margin: a share; seed: of the bootstrap."""
    asked = set(after.examples)
    common = [example for example in before.examples if example in asked]
    first, second = _by_example(before), _by_example(after)
    change = correctness_change([first[one][1] for one in common], [second[one][1] for one in common])
    ratio = token_ratio([first[one][0] for one in common], [second[one][0] for one in common], seed)
    return Paired(ratio, change, non_inferiority(change, margin))


def _by_example(found: Measurement) -> dict[str, tuple[int, bool]]:
    return dict(zip(found.examples, zip(found.tokens, found.correct, strict=True), strict=True))


def paired_sentence(paired: Paired, against: str) -> str:
    """All figures of a comparison in one sentence; `against` names the other system."""
    ratio, change, loss = paired.ratio, paired.change, paired.loss
    difference = change.difference
    excluded = "excluded" if loss.is_shown else "not excluded"
    return (
        f"against {against}: {ratio.before:.1f} -> {ratio.after:.1f} tokens, "
        f"ratio {ratio.ratio.value:.3f} ({ratio.ratio.low:.3f} to {ratio.ratio.high:.3f}); "
        f"{change.before} -> {change.after} of {change.count} correct, "
        f"{format_signed(difference.value)} points ({format_signed(difference.low)} to "
        f"{format_signed(difference.high)}); a loss of {format_points(loss.margin)} is {excluded} "
        f"(lower bound {format_signed(loss.bound)})."
    )
