"""Which candidate speaks for a ticket: one that agrees with the label, and one chosen without it.  And which tickets
of a batch are reflected on.

Of a ticket with one right candidate the first choice is right, whatever the others say: it measures whether a right
answer was among the candidates.  Only the second choice is an accuracy, and screens tickets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tasks.guide.candidates import DecodeCell, GuideCandidate, Signals, TicketCandidates, compute_signals
from tasks.guide.verdict_lines import Verdict

TieBreak = Literal["confidence", "temperature"]
EligibilityPolicy = Literal["selected_mismatch_or_all_wrong", "contradictions_only", "contradictions_or_all_wrong"]
AllWrongStrategy = Literal["reflect_diagnose", "manual_review"]
GroupKind = Literal["mixed", "all_wrong", "all_right"]

PRIORITY: tuple[GroupKind, ...] = ("mixed", "all_wrong", "all_right")  # what is first in a reflection's prompt
NONE_MEETS_POLICY = "no ticket meets the eligibility policy"
ONLY_MANUAL_REVIEW = "every ticket that meets the eligibility policy is for manual review"
NOT_BY_POLICY = "not by the eligibility policy"
MANUAL_REVIEW = "all wrong, for manual review"


@dataclass(frozen=True)
class SignalWeights:
    """The weights of the sum that decides between candidates which the tie-break leaves equal."""

    label_match: float
    self_consistency: float
    confidence: float


@dataclass(frozen=True)
class TicketSelection:
    """The index of the chosen candidate, its verdict, and whether that is the label.

    Without a valid candidate: None, None, False.
    """

    candidate: int | None
    verdict: Verdict | None
    label_match: bool


@dataclass(frozen=True)
class TieRule:
    """How one of several candidates is chosen: the tie-break, then the weighted sum, then the lower index.

    `confidence` takes the higher one, `temperature` the lower one of the candidate's cell in `grid`.
    """

    tie_break: TieBreak
    grid: Sequence[DecodeCell]
    weights: SignalWeights | None = None

    def best(self, candidates: Iterable[GuideCandidate], signals: Sequence[Signals]) -> GuideCandidate:
        """Of one or more candidates.  `signals` has those of all candidates of the ticket, by index."""
        return min(candidates, key=lambda candidate: self._order(candidate, signals[candidate.index]))

    def _order(self, candidate: GuideCandidate, signals: Signals) -> tuple[float, float, int]:
        by_confidence = self.tie_break == "confidence"
        first = -(candidate.confidence or 0.0) if by_confidence else self.grid[candidate.cell].temperature
        return first, -_weighted(signals, self.weights) if self.weights else 0.0, candidate.index


def majority(verdicts: Iterable[Verdict | None]) -> Verdict | None:
    """The verdict of most candidates; None of them are malformed and have no vote.  A tie goes to fail."""
    votes = [verdict for verdict in verdicts if verdict is not None]
    if not votes:
        return None
    return "pass" if 2 * votes.count("pass") > len(votes) else "fail"


def select_label_first(
    label: Verdict, candidates: Sequence[GuideCandidate], signals: Sequence[Signals], rule: TieRule
) -> TicketSelection:
    """The best of the candidates that agree with the label; where none does, the best of all valid ones."""
    valid = [candidate for candidate in candidates if candidate.verdict is not None]
    return _chosen(label, [c for c in valid if c.verdict == label] or valid, signals, rule)


def select_label_free(
    label: Verdict, candidates: Sequence[GuideCandidate], signals: Sequence[Signals], rule: TieRule
) -> TicketSelection:
    """The best of the candidates with the majority's verdict.  The label only says whether that is right."""
    verdict = majority(candidate.verdict for candidate in candidates)
    weights = replace(rule.weights, label_match=0.0) if rule.weights else None
    agreeing = [c for c in candidates if c.verdict is not None and c.verdict == verdict]
    return _chosen(label, agreeing, signals, replace(rule, weights=weights))


@dataclass(frozen=True)
class GroupOutcome:
    """How a ticket's candidates did.  Without a valid candidate it is all wrong.

    A ticket whose selection is wrong is mixed or all wrong: the majority of right candidates is right.
    """

    group_id: str
    kind: GroupKind
    is_selected_wrong: bool


@dataclass(frozen=True)
class Screening:
    """The tickets to reflect on, in the order of priority and then of group ids, and why each other one is not."""

    bundle: tuple[str, ...]
    eligible: bool
    ineligible_reason: str | None
    manual_review: tuple[str, ...]
    left_out: Mapping[str, str]


def outcome_of(group_id: str, signals: Sequence[Signals], label_free: TicketSelection) -> GroupOutcome:
    """The outcome of one ticket, from the signals of all its candidates."""
    matches = {signal.label_match for signal in signals} - {None}
    kind: GroupKind = "mixed" if len(matches) == 2 else "all_right" if True in matches else "all_wrong"
    return GroupOutcome(group_id, kind, not label_free.label_match)


def screen(
    groups: Sequence[GroupOutcome], policy: EligibilityPolicy, all_wrong_strategy: AllWrongStrategy
) -> Screening:
    """The tickets of a batch that meet the policy, less those that people are to look at."""
    meeting = [group for group in groups if _meets(group, policy)]
    by_hand = {g.group_id for g in meeting if g.kind == "all_wrong" and all_wrong_strategy == "manual_review"}
    bundle = [group for group in meeting if group.group_id not in by_hand]
    bundle.sort(key=lambda group: (PRIORITY.index(group.kind), group.group_id))
    kept = {group.group_id for group in bundle}
    left_out = {
        group.group_id: MANUAL_REVIEW if group.group_id in by_hand else NOT_BY_POLICY
        for group in groups
        if group.group_id not in kept
    }
    reason = None if bundle else ONLY_MANUAL_REVIEW if meeting else NONE_MEETS_POLICY
    return Screening(tuple(g.group_id for g in bundle), bool(bundle), reason, tuple(sorted(by_hand)), left_out)


@dataclass(frozen=True)
class TicketFindings:
    """What was found of one ticket: the signals of its candidates, both selections, and how it did."""

    signals: tuple[Signals, ...]
    label_first: TicketSelection
    label_free: TicketSelection
    outcome: GroupOutcome


@dataclass(frozen=True)
class BatchFindings:
    """What was found of each ticket of a batch, in its order, and which of them to reflect on."""

    groups: tuple[TicketFindings, ...]
    screening: Screening


def find_in_batch(
    groups: Iterable[TicketCandidates],
    rule: TieRule,
    policy: EligibilityPolicy,
    all_wrong_strategy: AllWrongStrategy,
    *,
    store_confidence: bool,
    enable_consistency: bool,
) -> BatchFindings:
    """Signals, selections and screening of a batch."""
    found = []
    for group in groups:
        label, candidates = group.ticket.label, group.candidates
        signals = compute_signals(
            group.ticket, candidates, store_confidence=store_confidence, enable_consistency=enable_consistency
        )
        free = select_label_free(label, candidates, signals, rule)
        outcome = outcome_of(group.ticket.group_id, signals, free)
        found.append(TicketFindings(signals, select_label_first(label, candidates, signals, rule), free, outcome))
    return BatchFindings(tuple(found), screen([one.outcome for one in found], policy, all_wrong_strategy))


def _chosen(
    label: Verdict, among: Sequence[GuideCandidate], signals: Sequence[Signals], rule: TieRule
) -> TicketSelection:
    if not among:
        return TicketSelection(None, None, False)
    best = rule.best(among, signals)
    return TicketSelection(best.index, best.verdict, best.verdict == label)


def _weighted(signals: Signals, weights: SignalWeights) -> float:
    """What was not measured counts as 0."""
    return (
        weights.label_match * bool(signals.label_match)
        + weights.self_consistency * (signals.self_consistency or 0.0)
        + weights.confidence * (signals.confidence or 0.0)
    )


def _meets(group: GroupOutcome, policy: EligibilityPolicy) -> bool:
    if policy == "contradictions_only":
        return group.kind == "mixed"
    if policy == "contradictions_or_all_wrong":
        return group.kind in ("mixed", "all_wrong")
    return group.is_selected_wrong or group.kind == "all_wrong"
