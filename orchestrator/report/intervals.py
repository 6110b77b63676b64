"""Intervals of one system's figures, without another system beside it.

Two such intervals may overlap although the paired comparison (inference.py) shows a difference: questions differ more
than systems do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from orchestrator.report.inference import LEVEL, Estimate

RESAMPLES = 2_000
DRAWN_AT_ONCE = 500_000
_Z = NormalDist().inv_cdf((1 + LEVEL) / 2)


def mean_interval(values: Sequence[int], seed: int) -> Estimate:
    """The mean of `values` [n] with its percentile bootstrap interval (Efron 1979)."""
    array = np.array(values, dtype=np.float64)
    low, high = np.quantile(_resampled_means(array, seed), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    mean = float(array.mean())
    return Estimate(mean, min(mean, float(low)), max(mean, float(high)))


def _resampled_means(
    values: np.ndarray[tuple[int, ...], np.dtype[np.float64]], seed: int
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """The means [RESAMPLES] of resamples of `values` [n], some at a time: all at once take 32 kB a question."""
    rng, count = np.random.default_rng(seed), len(values)
    rows = max(1, DRAWN_AT_ONCE // count)
    sizes = [min(rows, RESAMPLES - start) for start in range(0, RESAMPLES, rows)]
    return np.concatenate([values[rng.integers(0, count, size=(size, count))].mean(axis=1) for size in sizes])


def share_interval(successes: int, count: int) -> Estimate:
    """A share with its Wilson score interval (Wilson 1927)."""
    share = successes / count
    centre = (share + _Z**2 / (2 * count)) / (1 + _Z**2 / count)
    half = _Z / (1 + _Z**2 / count) * math.sqrt(share * (1 - share) / count + _Z**2 / (4 * count**2))
    return Estimate(share, max(0.0, min(share, centre - half)), min(1.0, max(share, centre + half)))
