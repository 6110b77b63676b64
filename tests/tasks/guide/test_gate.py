"""The gate applies what helps the held-out tickets, by three bounds, and says which one was missed."""

from __future__ import annotations

import numpy as np
import pytest
from guide_records import scores, tickets
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.guide.gate import GateDecision, TicketScores, decide


def judged(before: list[TicketScores], after: list[TicketScores], **bounds: float) -> GateDecision:
    return decide(before, after, **{"apply_if_delta": 0.02, "min_probability": 0.8, "max_false_pass_rise": 0.0,
                                    "seed": 5, **bounds})  # fmt: skip


def test_an_edit_that_helps_every_ticket_is_applied() -> None:
    before = tickets([("pass", 4, 4), ("fail", 2, 6)] * 8)
    after = tickets([("pass", 6, 2), ("fail", 6, 2)] * 8)
    found = judged(before, after)
    assert found == GateDecision(uplift=3 / 8, probability=1.0, false_pass_before=1.0, false_pass_after=0.0, apply=True,
                                 reason="applied")  # fmt: skip


def test_an_edit_without_effect_is_not() -> None:
    same = tickets([("pass", 4, 4), ("fail", 2, 6)] * 8)
    found = judged(same, same)
    assert (found.uplift, found.probability, found.apply, found.reason) == (0.0, 0.0, False, "uplift")


def test_one_ticket_that_carries_all_the_gain_is_too_uncertain() -> None:
    # given sixteen tickets of which one becomes right
    before, after = tickets([("pass", 0, 8)] * 16), tickets([("pass", 8, 0), *[("pass", 0, 8)] * 15])
    found = judged(before, after)
    # then the mean rises by 6 points, and 1 - (15/16)^16 = 64 % of the resamples have that ticket
    assert (found.uplift, found.reason) == (1 / 16, "probability")
    assert found.probability == pytest.approx(1 - (15 / 16) ** 16, abs=0.05)
    assert judged(before, after, min_probability=0.5).apply


def test_a_gain_that_is_paid_with_false_passes_is_refused() -> None:
    # given an edit that makes the model pass everything, where most labels are pass
    before = tickets([("pass", 2, 6)] * 12 + [("fail", 8, 0)] * 4)
    after = tickets([("pass", 8, 0)] * 12 + [("fail", 8, 0)] * 3 + [("fail", 1, 7)])
    found = judged(before, after, max_false_pass_rise=0.2)
    assert (found.false_pass_before, found.false_pass_after, found.reason) == (0.0, 0.25, "false_pass")
    assert found.uplift > 0.4
    # a rise by exactly the bound is allowed
    assert judged(before, after, max_false_pass_rise=0.25).apply


def test_a_malformed_answer_is_wrong_and_has_no_vote() -> None:
    assert scores("pass", 4, 0, malformed=4).score == 1 / 2
    assert scores("pass", 0, 0, malformed=4).score == 0
    # of a ticket with label fail: no valid answer is no false pass, one valid pass is
    assert not scores("fail", 0, 0, malformed=4).is_false_pass
    assert scores("fail", 0, 1, malformed=3).is_false_pass
    assert not scores("fail", 4, 4).is_false_pass


def test_a_gain_of_exactly_the_bound_reaches_it() -> None:
    # given 50 tickets with one candidate each, of which one becomes right: 1/50, which no float is
    for count, bound in ((50, 0.02), (10, 0.1), (100, 0.01)):
        before = tickets([("pass", 0, 1)] * count)
        after = tickets([("pass", 1, 0), *[("pass", 0, 1)] * (count - 1)])
        assert judged(before, after, apply_if_delta=bound, min_probability=0.0).apply
        assert judged(before, after, apply_if_delta=bound + 1e-9, min_probability=0.0).reason == "uplift"


def test_the_same_seed_gives_the_same_decision() -> None:
    before, after = tickets([("pass", 3, 5)] * 20), tickets([("pass", 5, 3), ("pass", 2, 6)] * 10)
    found = [judged(before, after, seed=seed) for seed in (1, 1, 2, 3, 4)]
    assert found[0] == found[1]
    assert len({decision.probability for decision in found}) > 1


def test_other_tickets_cannot_be_compared() -> None:
    one, two = tickets([("pass", 1, 1)]), tickets([("pass", 1, 1)] * 2)
    for before, after in (([], []), (one, two), (one, tickets([("fail", 1, 1)])), (two, two[::-1])):
        with pytest.raises(ValueError, match="the same tickets"):
            judged(before, after)


outcomes = st.lists(
    st.tuples(st.sampled_from(["pass", "fail"]), st.integers(0, 8), st.integers(0, 8)), min_size=1, max_size=30
)


@settings(max_examples=40, deadline=None)
@given(outcomes)
def test_the_figures_are_those_of_the_definition(found: list[tuple[str, int, int]]) -> None:
    # given eight candidates a ticket, and how many are right before and after
    before = tickets([(label, old, 8 - old) for label, old, _ in found])
    after = tickets([(label, new, 8 - new) for label, _, new in found])
    rises = np.array([new - old for _, old, new in found]) / 8
    decision = judged(before, after)
    # then
    assert decision.uplift == pytest.approx(rises.mean())
    draws = np.random.default_rng(0).choice(rises, (4000, len(rises))).mean(axis=1)
    assert decision.probability == pytest.approx((draws > 1e-12).mean(), abs=0.07)
    failing = [(old < 4, new < 4) for label, old, new in found if label == "fail"]
    rates = np.mean(failing, axis=0) if failing else (0, 0)
    assert (decision.false_pass_before, decision.false_pass_after) == pytest.approx(tuple(rates))
    passed = decision.uplift >= 0.02 and decision.probability >= 0.8 and rates[1] <= rates[0]
    assert decision.apply == passed == (decision.reason == "applied")


def test_more_candidates_on_one_side_are_weighed_as_shares() -> None:
    before = [TicketScores("t", "pass", ("pass", "fail", None))]
    after = [TicketScores("t", "pass", ("pass", "pass", "pass", "fail"))]
    assert judged(before, after).uplift == pytest.approx(3 / 4 - 1 / 3)
