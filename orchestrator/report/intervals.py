"""Intervals of one system's figures, without another system beside it.

Two such intervals may overlap although the paired comparison (inference.py) shows a difference: questions differ more
than systems do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from orchestrator.report.inference import LEVEL, Estimate, percentile_interval, resampled_means

RESAMPLES = 2_000
_Z = NormalDist().inv_cdf((1 + LEVEL) / 2)


def mean_interval(values: Sequence[int], seed: int) -> Estimate:
    """The mean of `values` [n] with its percentile bootstrap interval (Efron 1979)."""
    array = np.array([values], dtype=np.float64)
    return percentile_interval(float(array.mean()), resampled_means(array, seed, RESAMPLES)[:, 0])


def share_interval(successes: int, count: int) -> Estimate:
    """A share with its Wilson score interval (Wilson 1927)."""
    share = successes / count
    centre = (share + _Z**2 / (2 * count)) / (1 + _Z**2 / count)
    half = _Z / (1 + _Z**2 / count) * math.sqrt(share * (1 - share) / count + _Z**2 / (4 * count**2))
    return Estimate(share, max(0.0, min(share, centre - half)), min(1.0, max(share, centre + half)))
