"""The paired statistics: against values worked out by hand, and against what must hold for any data."""

from __future__ import annotations

import random
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.report.statistics import (
    Comparison,
    JudgedAnswer,
    bootstrap,
    mcnemar,
    paired_statistics,
)

differences = st.lists(st.integers(-500, 500).map(float), min_size=1, max_size=30)


def graded(example: str, tokens: int, is_correct: bool) -> JudgedAnswer:
    return JudgedAnswer(example, tokens, is_correct, text="", question="", gold="", reasoning="")


def comparison(before: list[tuple[int, bool]], after: list[tuple[int, bool]]) -> Comparison:
    first = tuple(graded(str(i), *one) for i, one in enumerate(before))
    second = tuple(graded(str(i), *one) for i, one in enumerate(after))
    return Comparison("training set", first, second)


@settings(deadline=None)
@given(differences, st.integers(0, 2**32))
def test_the_interval_holds_the_mean_and_stays_within_the_data(values: list[float], seed: int) -> None:
    interval = bootstrap(values, random.Random(seed), resamples=50)
    assert min(values) <= interval.low <= interval.mean <= interval.high <= max(values)


def test_the_interval_covers_the_true_mean_about_as_often_as_it_claims() -> None:
    # given 200 samples of 40 draws from a distribution whose mean is 10
    rng = random.Random(5)
    samples = [[rng.gauss(10, 4) for _ in range(40)] for _ in range(200)]
    # when each gets its interval
    intervals = [bootstrap(sample, rng, resamples=300) for sample in samples]
    # then about 95 % of them hold 10
    assert 0.89 <= sum(one.low <= 10 <= one.high for one in intervals) / 200 <= 0.99


@settings(deadline=None)
@given(st.integers(0, 12), st.integers(0, 12))
def test_mcnemar_is_the_share_of_all_coin_throws_at_least_as_lopsided(gained: int, lost: int) -> None:
    throws = gained + lost
    if throws > 10:
        throws = 10
        gained, lost = min(gained, 10), 10 - min(gained, 10)
    lopsided = sum(abs(2 * sum(throw) - throws) >= abs(gained - lost) for throw in product((0, 1), repeat=throws))
    assert mcnemar(gained, lost) == pytest.approx(lopsided / 2**throws)


def test_mcnemar_by_hand() -> None:
    assert mcnemar(0, 0) == 1.0
    assert mcnemar(6, 0) == 2 / 64
    assert mcnemar(1, 5) == 2 * 7 / 64


def test_a_change_counts_in_pairs_whatever_the_order_of_the_answers() -> None:
    # given three questions, the second answers in another order
    same = comparison([(100, True), (50, False), (30, True)], [(60, False), (50, True), (10, True)])
    shuffled = Comparison(same.name, same.before, tuple(reversed(same.after)))
    # when they are compared
    measured = paired_statistics(shuffled, random.Random(0))
    # then each answer met its own question
    assert (measured.gained, measured.lost) == (1, 1)
    assert (measured.correct_before, measured.correct_after, measured.count) == (2, 2, 3)
    assert (measured.tokens_before, measured.tokens_after) == (60.0, 40.0)
    assert measured.tokens.mean == -20.0
    assert measured == paired_statistics(same, random.Random(0))
