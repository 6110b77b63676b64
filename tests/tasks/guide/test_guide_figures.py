"""The figures of a run: each has its interval and its count, and of nothing there is no figure."""

from __future__ import annotations

import itertools
import random

import pytest
from guide_records import scores, tickets

from tasks.guide import figures
from tasks.guide.figures import UNMEASURED

PASSES_ALL = [("pass", "pass")] * 30 + [("fail", "pass")] * 10


def test_a_model_that_passes_everything_is_as_good_as_a_coin() -> None:
    assert figures.accuracy(PASSES_ALL).value == 0.75
    assert figures.balanced_accuracy(PASSES_ALL).value == 0.5
    assert figures.false_pass_rate(PASSES_ALL).value == 1.0
    assert [m.count for m in (figures.accuracy(PASSES_ALL), figures.false_pass_rate(PASSES_ALL))] == [40, 10]


def test_a_missing_verdict_is_wrong_and_passes_nothing() -> None:
    judged = [("pass", None), ("fail", None), ("pass", "pass"), ("fail", "fail")]
    assert figures.accuracy(judged).value == figures.balanced_accuracy(judged).value == 0.5
    assert figures.false_pass_rate(judged).value == 0.0


def test_of_nothing_there_is_no_figure() -> None:
    for measure in (figures.accuracy([]), figures.balanced_accuracy([]), figures.false_pass_rate([("pass", "pass")]),
                    figures.reflection_precision([]), figures.mean([]),
                    figures.pass_at(8, []), figures.balanced_gain([], [])):  # fmt: skip
        assert measure == UNMEASURED


def test_a_share_has_the_interval_of_wilson() -> None:
    found = figures.share(8, 10)
    assert (found.low, found.high) == pytest.approx((0.4902, 0.9433), abs=1e-4)
    assert (figures.share(0, 10).low, figures.share(10, 10).high) == (0.0, 1.0)


def test_the_interval_of_balanced_accuracy_holds_the_truth_19_times_in_20() -> None:
    # given a model that is right on 9 of 10 tickets to pass and on 6 of 10 to fail, and many samples of few tickets
    rng, held = random.Random(1), 0
    for _ in range(600):
        judged = [("pass", "pass" if rng.random() < 0.9 else "fail") for _ in range(60)]
        judged += [("fail", "fail" if rng.random() < 0.6 else "pass") for _ in range(25)]
        found = figures.balanced_accuracy(judged)
        held += found.low <= 0.75 <= found.high
    assert 0.92 <= held / 600 <= 0.98


def test_pass_at_k_is_the_share_of_the_subsets_with_a_right_candidate() -> None:
    # given a ticket with 3 right ones of 8
    ticket = scores("pass", 3, 4, malformed=1)
    subsets = list(itertools.combinations([True] * 3 + [False] * 5, 2))
    assert figures.pass_at(2, [ticket]).value == pytest.approx(sum(map(any, subsets)) / len(subsets))
    assert figures.pass_at(8, [ticket, scores("fail", 0, 8)]).value == 0.5
    with pytest.raises(ValueError, match="pass@9 needs 9 candidates"):
        figures.pass_at(9, [ticket])


def test_majorities_are_judged_without_the_label() -> None:
    found = figures.majority_pairs(
        [*tickets([("pass", 5, 3), ("pass", 4, 4), ("fail", 4, 4)]), scores("fail", 0, 0, 2)]
    )
    assert found == (("pass", "pass"), ("pass", "fail"), ("fail", "fail"), ("fail", None))


def test_a_gain_is_told_from_the_same_tickets() -> None:
    # given that of 60 tickets a tenth is right only after, among those with either label
    before = [(label, label if n >= 6 else None) for label in ("pass", "fail") for n in range(60)]
    after = [(label, label) for label, _ in before]
    found = figures.balanced_gain(before, after)
    assert (found.value, found.count) == (pytest.approx(0.1), 120)
    assert 0.04 < found.low < 0.1 < found.high < 0.17
    assert figures.balanced_gain(before, before).value == 0.0
    with pytest.raises(ValueError, match="the same tickets"):
        figures.balanced_gain(before, after[1:])


def test_reflections_that_leave_the_rate_as_it_was_are_not_better() -> None:
    assert figures.reflection_precision([(0.5, 0.6), (0.5, 0.5), (0.6, 0.5), (0.1, 0.9)]).value == 0.5
    # unpaired: the batch that was reflected on, and the next one; the last batch has none
    assert figures.unpaired_rates([0.5, 0.6, 0.4, 0.9], [True, False, True, True]) == ((0.5, 0.6), (0.4, 0.9))
    assert figures.unpaired_rates([], []) == figures.unpaired_rates([0.5], [True]) == ()
