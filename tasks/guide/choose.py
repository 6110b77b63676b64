"""What is measured of a ticket's candidates, which of them speaks for it, and which tickets are reflected on.

Two candidates are chosen: one that agrees with the label, and one without the label.  Of a ticket with one right
candidate the first is right, whatever the others say: it shows whether a right answer was among the candidates.  Only
the second is an accuracy, and screens tickets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tasks.guide.ticket import DecodeCell, GuideCandidate, TicketCandidates, Verdict

TieBreak = Literal["confidence", "temperature"]
Backend = Literal["target", "endpoint"]  # which model critic and reflector are
EligibilityPolicy = Literal["selected_mismatch_or_all_wrong", "contradictions_only", "contradictions_or_all_wrong"]
AllWrongStrategy = Literal["reflect_diagnose", "manual_review"]
GroupKind = Literal["mixed", "all_wrong", "all_right"]

PRIORITY: tuple[GroupKind, ...] = ("mixed", "all_wrong", "all_right")  # what is first in a reflection's prompt
NONE_MEETS_POLICY = "no ticket meets the eligibility policy"
ONLY_MANUAL_REVIEW = "every ticket that meets the eligibility policy is for manual review"
NOT_BY_POLICY = "not by the eligibility policy"
MANUAL_REVIEW = "all wrong, for manual review"


@dataclass(frozen=True)
class Signals:
    """What is measured of one candidate; all None for a malformed one, and two of them for every one."""

    label_match: bool | None = None
    self_consistency: float | None = None  # the share of the ticket's valid candidates with the same verdict
    candidate_agreement: None = None
    confidence: float | None = None
    label_trust: None = None


def compute_signals(
    label: Verdict, candidates: Sequence[GuideCandidate], *, store_confidence: bool, enable_consistency: bool
) -> tuple[Signals, ...]:
    """The signals of each candidate, in their order."""
    votes = Counter(candidate.verdict for candidate in candidates if candidate.verdict is not None)

    def measured(candidate: GuideCandidate) -> Signals:
        if candidate.verdict is None:
            return Signals()
        return Signals(
            label_match=candidate.verdict == label,
            self_consistency=votes[candidate.verdict] / votes.total() if enable_consistency else None,
            confidence=candidate.confidence if store_confidence else None,
        )

    return tuple(measured(candidate) for candidate in candidates)


@dataclass(frozen=True)
class SignalWeights:
    """The weights of the sum that decides between candidates which the tie-break leaves equal."""

    label_match: float
    self_consistency: float
    confidence: float


@dataclass(frozen=True)
class TieRule:
    """How one of several candidates is chosen: the tie-break, then the weighted sum, then the lower index.

    `confidence` takes the higher one, `temperature` the lower one of the candidate's cell in `grid`.
    """

    tie_break: TieBreak
    grid: Sequence[DecodeCell]
    weights: SignalWeights | None = None

    def order(self, candidate: GuideCandidate, signals: Signals) -> tuple[float, float, int]:
        """The lowest is chosen.  A signal that was not measured counts as 0."""
        by_confidence = self.tie_break == "confidence"
        first = -(candidate.confidence or 0.0) if by_confidence else self.grid[candidate.cell].temperature
        weighted = 0.0
        if self.weights:
            weighted = (
                self.weights.label_match * bool(signals.label_match)
                + self.weights.self_consistency * (signals.self_consistency or 0.0)
                + self.weights.confidence * (signals.confidence or 0.0)
            )
        return first, -weighted, candidate.index


@dataclass(frozen=True)
class TicketSelection:
    """The index of the chosen candidate, its verdict, and whether that is the label."""

    candidate: int | None = None
    verdict: Verdict | None = None
    label_match: bool = False


def majority(verdicts: Iterable[Verdict | None]) -> Verdict | None:
    """The verdict of most candidates; None of them are malformed and have no vote.  A tie goes to fail."""
    votes = [verdict for verdict in verdicts if verdict is not None]
    if not votes:
        return None
    return "pass" if 2 * votes.count("pass") > len(votes) else "fail"


def select_both(
    label: Verdict, candidates: Sequence[GuideCandidate], signals: Sequence[Signals], rule: TieRule
) -> tuple[TicketSelection, TicketSelection]:
    """Label first: the best of the candidates that agree with the label; where none does, the best of all valid ones.

    Label free: the best of those with the majority's verdict; the label only says whether that is right.
    """

    def best(among: Sequence[GuideCandidate], rule: TieRule) -> TicketSelection:
        one = min(among, key=lambda candidate: rule.order(candidate, signals[candidate.index]), default=None)
        return TicketSelection(one.index, one.verdict, one.verdict == label) if one else TicketSelection()

    valid = [candidate for candidate in candidates if candidate.verdict is not None]
    verdict = majority(candidate.verdict for candidate in candidates)
    blind = replace(rule, weights=rule.weights and replace(rule.weights, label_match=0.0))
    return (
        best([one for one in valid if one.verdict == label] or valid, rule),
        best([one for one in valid if one.verdict == verdict], blind),
    )


@dataclass(frozen=True)
class TicketFindings(TicketCandidates):
    """What was found of one ticket: the signals of its candidates, and both selections."""

    signals: tuple[Signals, ...]
    label_first: TicketSelection
    label_free: TicketSelection

    @property
    def kind(self) -> GroupKind:
        """How the candidates did together; without a valid one it is all wrong."""
        matches = {signal.label_match for signal in self.signals} - {None}
        return "mixed" if len(matches) == 2 else "all_right" if True in matches else "all_wrong"


@dataclass(frozen=True)
class Screening:
    """The tickets to reflect on, in the order of priority and then of group ids, and why each other one is not."""

    bundle: tuple[str, ...]
    ineligible_reason: str | None
    manual_review: tuple[str, ...]
    left_out: Mapping[str, str]


def find_of_tickets(
    answered: Iterable[TicketCandidates], rule: TieRule, *, store_confidence: bool, enable_consistency: bool
) -> tuple[TicketFindings, ...]:
    """Signals and selections of each ticket."""
    found = []
    for one in answered:
        label, candidates = one.ticket.label, one.candidates
        signals = compute_signals(
            label, candidates, store_confidence=store_confidence, enable_consistency=enable_consistency
        )
        chosen = select_both(label, candidates, signals, rule)
        found.append(TicketFindings(one.ticket, candidates, signals, *chosen))
    return tuple(found)


def screen(
    groups: Sequence[TicketFindings], policy: EligibilityPolicy, all_wrong_strategy: AllWrongStrategy
) -> Screening:
    """The tickets of a batch that meet the policy, less those that people are to look at."""
    meeting = [group for group in groups if _meets(group, policy)]
    is_by_hand = all_wrong_strategy == "manual_review"
    by_hand = {group.ticket.group_id for group in meeting if group.kind == "all_wrong" and is_by_hand}
    kept = {g.ticket.group_id: PRIORITY.index(g.kind) for g in meeting if g.ticket.group_id not in by_hand}
    left_out = {
        name: MANUAL_REVIEW if name in by_hand else NOT_BY_POLICY
        for name in (group.ticket.group_id for group in groups)
        if name not in kept
    }
    reason = None if kept else ONLY_MANUAL_REVIEW if meeting else NONE_MEETS_POLICY
    bundle = tuple(sorted(kept, key=lambda name: (kept[name], name)))
    return Screening(bundle, reason, tuple(sorted(by_hand)), left_out)


def _meets(group: TicketFindings, policy: EligibilityPolicy) -> bool:
    if policy == "contradictions_only":
        return group.kind == "mixed"
    if policy == "contradictions_or_all_wrong":
        return group.kind in ("mixed", "all_wrong")
    return not group.label_free.label_match or group.kind == "all_wrong"
