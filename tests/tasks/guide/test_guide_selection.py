"""The two selections: with the label, which takes a right candidate wherever there is one, and without it."""

from __future__ import annotations

import itertools

import pytest
from guide_records import GRID, answers, ticket
from hypothesis import given
from hypothesis import strategies as st

from tasks.guide.candidates import GuideCandidate
from tasks.guide.selection import (
    SignalWeights,
    TicketSelection,
    TieRule,
    majority,
    select_label_first,
    select_label_free,
)
from tasks.guide.signals import compute_signals
from tasks.guide.verdict_lines import Verdict

BY_CONFIDENCE = TieRule("confidence", GRID)


def both(
    label: Verdict, candidates: tuple[GuideCandidate, ...], rule: TieRule = BY_CONFIDENCE
) -> tuple[TicketSelection, TicketSelection]:
    signals = compute_signals(ticket(label), candidates, store_confidence=True, enable_consistency=True)
    return select_label_first(label, candidates, signals, rule), select_label_free(label, candidates, signals, rule)


def test_one_right_candidate_is_enough_for_the_first_and_not_for_the_second() -> None:
    first, free = both("pass", answers(("fail", 0.9), ("fail", 0.8), ("pass", 0.1)))
    assert first == TicketSelection(2, "pass", True)
    assert free == TicketSelection(0, "fail", False)


def test_where_none_is_right_both_are_wrong() -> None:
    assert set(both("pass", answers(("fail", 0.2), ("fail", 0.8)))) == {TicketSelection(1, "fail", False)}


def test_a_tie_of_votes_goes_to_fail() -> None:
    _, free = both("pass", answers(("pass", 1.0), ("fail", 0.1), None))
    assert free == TicketSelection(1, "fail", False)


def test_without_a_valid_candidate_there_is_no_verdict_and_it_is_wrong() -> None:
    assert set(both("fail", answers(None, None))) == {TicketSelection(None, None, False)}


@pytest.mark.parametrize(
    ("rule", "chosen"),
    [
        (TieRule("confidence", GRID), 1),  # the highest confidence, the lower index of two
        (TieRule("temperature", GRID), 0),  # the greedy one
        (TieRule("temperature", GRID[1:] * 2), 0),  # all alike: the lower index
        (TieRule("temperature", GRID[1:] * 2, SignalWeights(confidence=1.0)), 1),
        (TieRule("temperature", GRID[1:] * 2, SignalWeights(confidence=-1.0)), 0),
        (TieRule("temperature", GRID[1:] * 2, SignalWeights(self_consistency=1.0)), 0),
    ],
)
def test_ties_within_a_verdict(rule: TieRule, chosen: int) -> None:
    candidates = answers(("pass", 0.2), ("pass", 0.9), ("pass", 0.9))
    first, free = both("pass", candidates, rule)
    assert (first.candidate, free.candidate) == (chosen, chosen)


def test_majority_needs_more_than_half_for_pass() -> None:
    assert [majority(votes) for votes in ([], [None], ["pass"], ["pass", None], ["pass", "fail"])] == [
        None, None, "pass", "pass", "fail"
    ]  # fmt: skip


votes = st.lists(st.none() | st.tuples(st.sampled_from(["pass", "fail"]), st.sampled_from([0.1, 0.5, 0.9])), max_size=6)


@given(votes, st.sampled_from(["confidence", "temperature"]))
def test_the_label_never_changes_the_label_free_choice(given_votes: list, tie_break: str) -> None:
    candidates = answers(*given_votes)
    rule = TieRule(tie_break, GRID, SignalWeights(5.0, 1.0, 0.5))
    chosen = {label: both(label, candidates, rule) for label in ("pass", "fail")}
    (_, on_pass), (_, on_fail) = chosen["pass"], chosen["fail"]
    assert (on_pass.candidate, on_pass.verdict) == (on_fail.candidate, on_fail.verdict)
    # and the first is right exactly where some candidate is
    verdicts = {candidate.verdict for candidate in candidates}
    assert all(chosen[label][0].label_match == (label in verdicts) for label in ("pass", "fail"))


@given(votes)
def test_the_choice_among_all_orders_of_candidates_has_the_same_verdict(given_votes: list) -> None:
    orders = itertools.islice(itertools.permutations(given_votes), 24)
    assert len({both("pass", answers(*order))[1].verdict for order in orders}) == 1
