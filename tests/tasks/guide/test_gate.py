"""The gate applies what helps the held-out tickets, by three bounds, and says which one was missed."""

from __future__ import annotations

import pytest
from guide_records import scores, tickets

from tasks.guide import choose
from tasks.guide.choose import GateDecision, TicketScores, decide


def judged(before: list[TicketScores], after: list[TicketScores], **bounds: float) -> GateDecision:
    return decide(before, after, **{"apply_if_delta": 0.02, "min_probability": 0.8, "max_false_pass_rise": 0.0,
                                    "seed": 5, **bounds})  # type: ignore[arg-type]  # fmt: skip


def test_an_edit_that_helps_every_ticket_is_applied_and_one_without_effect_is_not() -> None:
    before = tickets([("pass", 4, 4), ("fail", 2, 6)] * 8)
    after = tickets([("pass", 6, 2), ("fail", 6, 2)] * 8)
    assert judged(before, after) == GateDecision(3 / 8, 1.0, 1.0, 0.0, "applied")
    same = judged(before, before)
    assert (same.uplift, same.probability, same.reason) == (0.0, 0.0, "uplift")


def test_one_ticket_that_carries_all_the_gain_is_too_uncertain() -> None:
    before, after = tickets([("pass", 0, 8)] * 16), tickets([("pass", 8, 0), *[("pass", 0, 8)] * 15])
    found = judged(before, after)
    # then the mean rises by 6 points, and 1 - (15/16)^16 = 64 % of the resamples have that ticket
    assert (found.uplift, found.reason) == (1 / 16, "probability")
    assert found.probability == pytest.approx(1 - (15 / 16) ** 16, abs=0.05)
    assert judged(before, after, min_probability=0.5).reason == "applied"


def test_a_gain_that_is_paid_with_false_passes_is_refused() -> None:
    before = tickets([("pass", 2, 6)] * 12 + [("fail", 8, 0)] * 4)
    after = tickets([("pass", 8, 0)] * 12 + [("fail", 8, 0)] * 3 + [("fail", 1, 7)])
    found = judged(before, after, max_false_pass_rise=0.2)
    assert (found.false_pass_before, found.false_pass_after, found.reason) == (0.0, 0.25, "false_pass")
    assert judged(before, after, max_false_pass_rise=0.25).reason == "applied", "a rise by exactly the bound is allowed"


def test_a_malformed_answer_is_wrong_and_has_no_vote() -> None:
    assert (scores("pass", 4, 0, malformed=4).score, scores("pass", 0, 0, malformed=4).score) == (1 / 2, 0)
    # of a ticket with label fail: no valid answer is no false pass, one valid pass is
    none, one = [scores("fail", 0, 0, malformed=4)], [scores("fail", 0, 1, malformed=3)]
    assert (judged(none, one).false_pass_before, judged(none, one).false_pass_after) == (0.0, 1.0)
    assert judged([scores("fail", 4, 4)], none).false_pass_before == 0.0


def test_a_gain_of_exactly_the_bound_reaches_it() -> None:
    # given 50 tickets with one candidate each, of which one becomes right: 1/50, which no float is
    for count, bound in ((50, 0.02), (10, 0.1), (100, 0.01)):
        before = tickets([("pass", 0, 1)] * count)
        after = tickets([("pass", 1, 0), *[("pass", 0, 1)] * (count - 1)])
        assert judged(before, after, apply_if_delta=bound, min_probability=0.0).reason == "applied"
        assert judged(before, after, apply_if_delta=bound + 1e-9, min_probability=0.0).reason == "uplift"


def test_other_tickets_cannot_be_compared() -> None:
    one, two = tickets([("pass", 1, 1)]), tickets([("pass", 1, 1)] * 2)
    for before, after in (([], []), (one, two), (one, tickets([("fail", 1, 1)])), (two, two[::-1])):
        with pytest.raises(ValueError, match="the same tickets"):
            judged(before, after)


def test_a_model_that_passes_everything_is_as_good_as_a_coin() -> None:
    passes_all = [("pass", "pass")] * 30 + [("fail", "pass")] * 10
    assert (choose.accuracy(passes_all), choose.balanced_accuracy(passes_all)) == (0.75, 0.5)  # type: ignore[arg-type]
    assert choose.false_pass_rate(passes_all) == 1.0  # type: ignore[arg-type]


def test_a_missing_verdict_is_wrong_and_passes_nothing_and_of_nothing_there_is_no_figure() -> None:
    pairs = [one.judged for one in (*tickets([("pass", 5, 3), ("pass", 4, 4)]), scores("fail", 0, 0, 2))]
    assert pairs == [("pass", "pass"), ("pass", "fail"), ("fail", None)]
    assert (choose.accuracy(pairs), choose.balanced_accuracy(pairs), choose.false_pass_rate(pairs)) == (
        1 / 3,
        1 / 4,
        0.0,
    )
    assert choose.accuracy([]) is choose.balanced_accuracy([]) is choose.false_pass_rate([("pass", "pass")]) is None
