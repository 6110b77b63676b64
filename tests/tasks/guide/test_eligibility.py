"""Which tickets are reflected on: three policies, two ways with those that are all wrong."""

from __future__ import annotations

import pytest
from guide_records import GRID, answers, ticket
from hypothesis import given
from hypothesis import strategies as st

from tasks.guide.eligibility import (
    MANUAL_REVIEW,
    NONE_MEETS_POLICY,
    NOT_BY_POLICY,
    ONLY_MANUAL_REVIEW,
    EligibilityPolicy,
    GroupOutcome,
    outcome_of,
    pack,
    screen,
)
from tasks.guide.selection import TieRule, select_label_free
from tasks.guide.signals import compute_signals

MIXED_RIGHT = GroupOutcome("d", "mixed", False)  # right and wrong candidates, and the majority is right
MIXED_WRONG = GroupOutcome("c", "mixed", True)
ALL_WRONG = GroupOutcome("a", "all_wrong", True)
ALL_RIGHT = GroupOutcome("b", "all_right", False)
BATCH = (ALL_WRONG, ALL_RIGHT, MIXED_WRONG, MIXED_RIGHT)


def outcome(label: str, *verdicts: str | None) -> GroupOutcome:
    candidates = answers(*(None if verdict is None else (verdict, 0.5) for verdict in verdicts))
    signals = compute_signals(ticket(label), candidates, store_confidence=True, enable_consistency=False)
    return outcome_of("t", signals, select_label_free(label, candidates, signals, TieRule("confidence", GRID)))


def test_the_outcome_of_a_ticket_is_that_of_its_valid_candidates() -> None:
    assert outcome("pass", "pass", "fail", "fail", None) == GroupOutcome("t", "mixed", True)
    assert outcome("fail", "pass", "fail", None) == GroupOutcome("t", "mixed", False)
    assert outcome("pass", "fail", None) == GroupOutcome("t", "all_wrong", True)
    assert outcome("pass", "pass", None) == GroupOutcome("t", "all_right", False)
    # without a valid candidate it is wrong
    assert outcome("pass", None, None) == GroupOutcome("t", "all_wrong", True)


@given(st.sampled_from(["pass", "fail"]), st.lists(st.sampled_from(["pass", "fail", None]), min_size=1, max_size=6))
def test_a_wrong_selection_is_never_among_right_candidates_alone(label: str, verdicts: list[str | None]) -> None:
    found = outcome(label, *verdicts)
    assert not (found.kind == "all_right" and found.is_selected_wrong)
    assert found.kind != "all_wrong" or found.is_selected_wrong


@pytest.mark.parametrize(
    ("policy", "bundle"),
    [
        ("selected_mismatch_or_all_wrong", ("c", "a")),
        ("contradictions_only", ("c", "d")),
        ("contradictions_or_all_wrong", ("c", "d", "a")),
    ],
)
def test_each_policy_takes_its_tickets_mixed_ones_first(policy: EligibilityPolicy, bundle: tuple[str, ...]) -> None:
    found = screen(BATCH, policy, "reflect_diagnose")
    assert (found.bundle, found.eligible, found.ineligible_reason, found.manual_review) == (bundle, True, None, ())
    assert found.left_out == {group: NOT_BY_POLICY for group in "abcd" if group not in bundle}


def test_all_wrong_tickets_can_be_left_to_people() -> None:
    found = screen(BATCH, "contradictions_or_all_wrong", "manual_review")
    assert (found.bundle, found.manual_review) == (("c", "d"), ("a",))
    assert found.left_out == {"a": MANUAL_REVIEW, "b": NOT_BY_POLICY}
    # and where nothing else is left there is nothing to reflect on
    alone = screen((ALL_WRONG, ALL_RIGHT), "selected_mismatch_or_all_wrong", "manual_review")
    assert (alone.bundle, alone.eligible, alone.ineligible_reason) == ((), False, ONLY_MANUAL_REVIEW)
    assert alone.manual_review == ("a",)
    # a policy that does not take them does not flag them
    assert screen(BATCH, "contradictions_only", "manual_review").manual_review == ()


def test_a_batch_that_is_right_is_not_reflected_on() -> None:
    found = screen((ALL_RIGHT,), "contradictions_or_all_wrong", "reflect_diagnose")
    assert (found.bundle, found.eligible, found.ineligible_reason) == ((), False, NONE_MEETS_POLICY)


def test_a_prompt_holds_the_first_of_the_bundle() -> None:
    assert [pack(("c", "d", "a"), size) for size in (1, 2, 9)] == [("c",), ("c", "d"), ("c", "d", "a")]
