"""The figures of a run; of nothing there is no figure."""

from __future__ import annotations

from guide_records import scores, tickets

from tasks.guide import figures

PASSES_ALL = [("pass", "pass")] * 30 + [("fail", "pass")] * 10


def test_a_model_that_passes_everything_is_as_good_as_a_coin() -> None:
    assert figures.accuracy(PASSES_ALL) == 0.75
    assert figures.balanced_accuracy(PASSES_ALL) == 0.5
    assert figures.false_pass_rate(PASSES_ALL) == 1.0


def test_a_missing_verdict_is_wrong_and_passes_nothing() -> None:
    judged = [("pass", None), ("fail", None), ("pass", "pass"), ("fail", "fail")]
    assert figures.accuracy(judged) == figures.balanced_accuracy(judged) == 0.5
    assert figures.false_pass_rate(judged) == 0.0


def test_of_nothing_there_is_no_figure() -> None:
    assert figures.accuracy([]) is figures.balanced_accuracy([]) is figures.false_pass_rate([("pass", "pass")]) is None


def test_majorities_are_judged_without_the_label() -> None:
    found = figures.majority_pairs(
        [*tickets([("pass", 5, 3), ("pass", 4, 4), ("fail", 4, 4)]), scores("fail", 0, 0, 2)]
    )
    assert found == (("pass", "pass"), ("pass", "fail"), ("fail", "fail"), ("fail", None))


def test_an_applied_reflection_is_measured_on_the_next_batch_and_the_last_one_is_not() -> None:
    assert figures.unpaired_rates([0.5, 0.6, 0.4, 0.9], [True, False, True, True]) == ((0.5, 0.6), (0.4, 0.9))
    assert figures.unpaired_rates([], []) == figures.unpaired_rates([0.5], [True]) == ()
