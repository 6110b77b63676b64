"""What answers can show: against published values, simulation and simple cases."""

from __future__ import annotations

import random

import pytest
from measured_book import measured

from orchestrator.report.statistics import (
    Measurement,
    correctness_change,
    lower_bound,
    non_inferiority,
    pair,
    paired_sentence,
    questions_needed,
    share_interval,
    token_ratio,
)


def verdicts(count: int, gained: int, lost: int, both: int) -> tuple[list[bool], list[bool]]:
    """`both` right before and after, `gained` only after, `lost` only before, the rest never."""
    neither = count - gained - lost - both
    before = [True] * both + [False] * gained + [True] * lost + [False] * neither
    after = [True] * both + [True] * gained + [False] * lost + [False] * neither
    return before, after


def test_the_interval_covers_the_true_ratio_as_often_as_it_says() -> None:
    rng = random.Random(5)
    covered = 0
    for trial in range(200):
        before = [round(rng.lognormvariate(4, 0.8)) + 1 for _ in range(60)]
        after = [round(0.7 * tokens * rng.uniform(0.6, 1.4)) for tokens in before]
        interval = token_ratio(before, after, seed=trial, resamples=500).ratio
        covered += interval.low <= 0.7 <= interval.high
    assert covered / 200 > 0.88  # nominal 0.95; bootstrap intervals of 60 skewed values fall a little short


def test_the_interval_of_the_difference_is_the_published_one() -> None:
    # Tango (1998), 50 pairs: 36 right in both, 12 and 2 in one alone.
    change = correctness_change(*verdicts(50, gained=12, lost=2, both=36))
    assert change.difference.value == pytest.approx(0.2)
    assert change.difference.low == pytest.approx(0.0611, abs=5e-5)
    assert change.difference.high == pytest.approx(0.3447, abs=5e-5)


@pytest.mark.parametrize(
    ("count", "gained", "lost", "is_shown"),
    [(600, 30, 30, True), (600, 20, 38, False), (100, 0, 0, True), (100, 5, 5, False), (50, 0, 0, False)],
)
def test_non_inferiority_needs_enough_questions_as_well_as_no_loss(
    count: int, gained: int, lost: int, is_shown: bool
) -> None:
    test = non_inferiority(correctness_change(*verdicts(count, gained, lost, both=count // 2 - lost)), 0.03)
    assert test.is_shown is is_shown
    assert test.bound < 0


def test_the_questions_needed_show_the_loss_four_times_of_five() -> None:
    rng = random.Random(2)
    gained, lost = 0.035, 0.085
    count, seen = questions_needed(0.05, discordant=0.12), 0
    for _ in range(1000):
        changes = [rng.random() for _ in range(count)]
        ups, downs = sum(u < gained for u in changes), sum(gained <= u < gained + lost for u in changes)
        seen += -lower_bound(count, downs, ups, 1.645) < 0
    assert 0.72 < seen / 1000 < 0.88
    assert questions_needed(0.03, 0.1) > questions_needed(0.05, 0.1) > questions_needed(0.05, 0.05)
    assert questions_needed(0.1, 0.0) >= 50  # five losses that nothing outweighs


def test_answers_without_a_token_count_as_one_token() -> None:
    assert token_ratio([0] * 20, [0] * 20, seed=1).ratio.value == 1.0
    longer = token_ratio([0] * 20, [4] * 20, seed=1)
    assert (longer.ratio.value, longer.ratio.low, longer.ratio.high) == (4.0, 4.0, 4.0)
    assert token_ratio([50] * 20, [0] * 20, seed=1).ratio.value == 0.02


def test_wilsons_interval_of_known_counts() -> None:
    # Newcombe 1998, "Two-sided confidence intervals for the single proportion", table I
    for successes, count, low, high in ((81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611)):
        interval = share_interval(successes, count)
        assert (interval.low, interval.high) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))


def test_each_answer_meets_its_own_question_whatever_the_order() -> None:
    before = Measurement(("a", "e", "b", "c"), (100, 9, 50, 30), (True, True, False, True), (True,) * 4, (False,) * 4)
    after = Measurement(("d", "c", "b", "a"), (9, 10, 50, 60), (True, True, True, True), (True,) * 3 + (False,), ())
    found = pair(before, after, 0.05, seed=1)
    assert (found.change.gained, found.change.lost, found.change.count) == (1, 1, 3)
    assert (found.ratio.before, found.ratio.after) == (60.0, 40.0)
    # and a loss within the margin is excluded by enough questions
    assert not found.loss.is_shown and "a loss of 5 points is not excluded" in paired_sentence(found, "it")
    enough = measured(1.0), measured(0.5, lost=2)
    assert pair(*enough, 0.05, seed=1).loss.is_shown and not pair(*enough, 0.005, seed=1).loss.is_shown
