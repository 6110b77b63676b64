"""Intervals of one system's figures: known answers, and the value is always inside."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.report.intervals import mean_interval, share_interval


def test_wilsons_interval_of_known_counts() -> None:
    # Newcombe 1998, "Two-sided confidence intervals for the single proportion", table I
    for successes, count, low, high in ((81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611)):
        interval = share_interval(successes, count)
        assert (interval.low, interval.high) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(0, 1000), min_size=1, max_size=60), st.integers(0, 100))
def test_the_mean_is_within_its_interval_and_the_same_seed_gives_the_same(values: list[int], seed: int) -> None:
    interval = mean_interval(values, seed)
    assert min(values) <= interval.low <= interval.value <= interval.high <= max(values)
    assert interval == mean_interval(values, seed)
