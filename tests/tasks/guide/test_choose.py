"""The two selections, with the label and without it; which tickets are reflected on; and the gate with its bounds."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest
from guide_records import BY_CONFIDENCE, answers, found, ticket
from hypothesis import given
from hypothesis import strategies as st

from tasks.guide.choose import (
    GateDecision,
    TicketSelection,
    Votes,
    decide,
    judge,
    judged_figures,
    majority,
    screen,
)
from tasks.guide.ticket import Verdict

# selections


def test_one_right_candidate_is_enough_for_the_first_and_not_for_the_second() -> None:
    one = found(ticket("pass"), ("fail", 0.9), ("fail", 0.8), ("pass", 0.1))
    assert one.label_first == TicketSelection(2, "pass", True)
    assert one.label_free == TicketSelection(0, "fail", False)


def test_a_tie_of_votes_goes_to_fail_and_a_malformed_answer_has_none() -> None:
    assert found(ticket("pass"), ("pass", 1.0), ("fail", 0.1), None).label_free == TicketSelection(1, "fail", False)
    nothing = found(ticket("fail"), None, None)
    assert nothing.label_first == nothing.label_free == TicketSelection(None, None, False)
    assert [majority(votes) for votes in ([], [None], ["pass"], ["pass", None], ["pass", "fail"])] == [
        None, None, "pass", "pass", "fail"
    ]  # fmt: skip


votes = st.lists(st.none() | st.tuples(st.sampled_from(["pass", "fail"]), st.sampled_from([0.1, 0.5, 0.9])), max_size=6)


@given(votes, st.sampled_from(["confidence", "temperature"]))
def test_the_label_never_changes_the_label_free_choice(given_votes: list[Any], tie_break: Any) -> None:
    weights = {"label_match": 5.0, "self_consistency": 1.0, "confidence": 0.5}
    rule = dataclasses.replace(BY_CONFIDENCE, tie_break=tie_break, weights=weights)
    on_pass, on_fail = (judge(ticket(label), answers(*given_votes), rule) for label in ("pass", "fail"))
    assert (on_pass.label_free.candidate, on_pass.label_free.verdict) == (
        on_fail.label_free.candidate, on_fail.label_free.verdict
    )  # fmt: skip
    # and the first is right exactly where some candidate is
    verdicts = {candidate.verdict for candidate in on_pass.candidates}
    assert (on_pass.label_first.label_match, on_fail.label_first.label_match) == (
        "pass" in verdicts, "fail" in verdicts
    )  # fmt: skip


@pytest.mark.parametrize(
    ("policy", "bundle"),
    [
        ("selected_mismatch_or_all_wrong", ("c", "a")),
        ("contradictions_only", ("c", "d")),
        ("contradictions_or_all_wrong", ("c", "d", "a")),
    ],
)
def test_each_policy_takes_its_tickets_mixed_ones_first(policy: Any, bundle: tuple[str, ...]) -> None:
    right, wrong = ("pass", 0.5), ("fail", 0.5)
    given_votes = {"a": [wrong, wrong], "b": [right], "c": [right, wrong, wrong], "d": [right, wrong, right]}
    groups = [found(ticket("pass", name), *given) for name, given in given_votes.items()]
    screening = screen(groups, policy, "reflect_diagnose")
    assert (screening.bundle, screening.ineligible_reason, screening.manual_review) == (bundle, None, ())
    assert screening.left_out.keys() == {*"abcd"} - {*bundle}


# the gate


def tickets(*outcomes: tuple[Verdict, int, int]) -> list[Votes]:
    """One ticket for each (label, right candidates, wrong candidates)."""
    other: dict[Verdict, Verdict] = {"pass": "fail", "fail": "pass"}
    return [Votes(label, (*[label] * right, *[other[label]] * wrong)) for label, right, wrong in outcomes]


def decided(before: Sequence[Votes], after: Sequence[Votes], **bounds: float) -> GateDecision:
    given = {"apply_if_delta": 0.02, "min_probability": 0.8, "max_false_pass_rise": 0.0, "seed": 5, **bounds}
    return decide(before, after, **given)  # type: ignore[arg-type]  # the seed is a whole number


def test_an_edit_that_helps_every_ticket_is_applied_and_one_without_effect_is_not() -> None:
    before = tickets(*[("pass", 4, 4), ("fail", 2, 6)] * 8)
    after = tickets(*[("pass", 6, 2), ("fail", 6, 2)] * 8)
    assert decided(before, after) == GateDecision(3 / 8, 1.0, 1.0, 0.0, "applied")
    assert decided(before, before) == GateDecision(0.0, 0.0, 1.0, 1.0, "uplift")


def test_one_ticket_that_carries_all_the_gain_is_too_uncertain() -> None:
    before, after = tickets(*[("pass", 0, 8)] * 16), tickets(("pass", 8, 0), *[("pass", 0, 8)] * 15)
    one = decided(before, after)
    # then the mean rises by 6 points, and 1 - (15/16)^16 = 64 % of the resamples have that ticket
    assert (one.uplift, one.reason) == (1 / 16, "probability")
    assert one.probability == pytest.approx(1 - (15 / 16) ** 16, abs=0.05)
    assert decided(before, after, min_probability=0.5).reason == "applied"


def test_a_gain_that_is_paid_with_false_passes_is_refused() -> None:
    before = tickets(*[("pass", 2, 6)] * 12, *[("fail", 8, 0)] * 4)
    after = tickets(*[("pass", 8, 0)] * 12, *[("fail", 8, 0)] * 3, ("fail", 1, 7))
    one = decided(before, after, max_false_pass_rise=0.2)
    assert (one.false_pass_before, one.false_pass_after, one.reason) == (0.0, 0.25, "false_pass")
    assert decided(before, after, max_false_pass_rise=0.25).reason == "applied", (
        "a rise by exactly the bound is allowed"
    )


def test_a_malformed_answer_is_wrong_and_has_no_vote() -> None:
    assert Votes("pass", ("pass", "pass", None, None)).score == 1 / 2
    # of a ticket with label fail: no valid answer is no false pass, one valid pass is
    one = decided([Votes("fail", (None, None))], [Votes("fail", ("pass", None))])
    assert (one.false_pass_before, one.false_pass_after) == (0.0, 1.0)


def test_a_gain_of_exactly_the_bound_reaches_it() -> None:
    # given 50 tickets with one candidate each, of which one becomes right: 1/50, which no float is
    for count, bound in ((50, 0.02), (10, 0.1), (100, 0.01)):
        before = tickets(*[("pass", 0, 1)] * count)
        after = tickets(("pass", 1, 0), *[("pass", 0, 1)] * (count - 1))
        assert decided(before, after, apply_if_delta=bound, min_probability=0.0).reason == "applied"
        assert decided(before, after, apply_if_delta=bound + 1e-9, min_probability=0.0).reason == "uplift"


def test_a_model_that_passes_everything_is_as_good_as_a_coin_and_a_missing_verdict_is_wrong() -> None:
    names = ("right", "accuracy", "balanced_accuracy", "false_pass_rate")
    for judged, wanted in (
        ([("pass", "pass")] * 30 + [("fail", "pass")] * 10, (30, 0.75, 0.5, 1.0)),
        ([("pass", "pass"), ("pass", "fail"), ("fail", None)], (1, 1 / 3, 1 / 4, 0.0)),
        ([], (0, None, None, None)),
    ):
        figures = judged_figures(judged)  # type: ignore[arg-type]
        assert tuple(figures[name] for name in names) == wanted
