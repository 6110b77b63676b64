"""The two selections, with the label and without it, and which tickets are reflected on."""

from __future__ import annotations

from typing import Any

import pytest
from guide_records import GRID, answers, ticket
from hypothesis import given
from hypothesis import strategies as st

from tasks.guide.choose import (
    NOT_BY_POLICY,
    Signals,
    SignalWeights,
    TicketFindings,
    TicketSelection,
    TieRule,
    find,
    majority,
    screen,
)
from tasks.guide.ticket import GuideCandidate, TicketCandidates, Verdict

BY_CONFIDENCE = TieRule("confidence", GRID)


def group(group_id: str, matches: list[bool], is_right: bool) -> TicketFindings:
    chosen = TicketSelection(0, "pass", is_right)
    return TicketFindings(ticket("pass", group_id), (), tuple(Signals(match) for match in matches), chosen, chosen)


BATCH = (
    group("a", [False, False], False),
    group("b", [True], True),
    group("c", [True, False, False], False),
    group("d", [True, False, True], True),
)


def both(
    label: Verdict, candidates: tuple[GuideCandidate, ...], rule: TieRule = BY_CONFIDENCE
) -> tuple[TicketSelection, TicketSelection]:
    answered = TicketCandidates(ticket(label), candidates)
    found = find(answered, rule, store_confidence=True, enable_consistency=True)
    return found.label_first, found.label_free


def test_one_right_candidate_is_enough_for_the_first_and_not_for_the_second() -> None:
    first, free = both("pass", answers(("fail", 0.9), ("fail", 0.8), ("pass", 0.1)))
    assert first == TicketSelection(2, "pass", True)
    assert free == TicketSelection(0, "fail", False)


def test_a_tie_of_votes_goes_to_fail_and_a_malformed_answer_has_none() -> None:
    assert both("pass", answers(("pass", 1.0), ("fail", 0.1), None))[1] == TicketSelection(1, "fail", False)
    assert set(both("fail", answers(None, None))) == {TicketSelection(None, None, False)}
    assert [majority(votes) for votes in ([], [None], ["pass"], ["pass", None], ["pass", "fail"])] == [
        None, None, "pass", "pass", "fail"
    ]  # fmt: skip


votes = st.lists(st.none() | st.tuples(st.sampled_from(["pass", "fail"]), st.sampled_from([0.1, 0.5, 0.9])), max_size=6)


@given(votes, st.sampled_from(["confidence", "temperature"]))
def test_the_label_never_changes_the_label_free_choice(given_votes: list[Any], tie_break: Any) -> None:
    candidates = answers(*given_votes)
    rule = TieRule(tie_break, GRID, SignalWeights(5.0, 1.0, 0.5))
    (first_pass, on_pass), (first_fail, on_fail) = (both(label, candidates, rule) for label in ("pass", "fail"))
    assert (on_pass.candidate, on_pass.verdict) == (on_fail.candidate, on_fail.verdict)
    # and the first is right exactly where some candidate is
    verdicts = {candidate.verdict for candidate in candidates}
    assert (first_pass.label_match, first_fail.label_match) == ("pass" in verdicts, "fail" in verdicts)


@pytest.mark.parametrize(
    ("policy", "bundle"),
    [
        ("selected_mismatch_or_all_wrong", ("c", "a")),
        ("contradictions_only", ("c", "d")),
        ("contradictions_or_all_wrong", ("c", "d", "a")),
    ],
)
def test_each_policy_takes_its_tickets_mixed_ones_first(policy: Any, bundle: tuple[str, ...]) -> None:
    found = screen(BATCH, policy, "reflect_diagnose")
    assert (found.bundle, found.ineligible_reason, found.manual_review) == (bundle, None, ())
    assert found.left_out == {group: NOT_BY_POLICY for group in "abcd" if group not in bundle}
