"""Which candidate speaks for a ticket, which tickets are reflected on, and whether an edit of the guidance is applied.

Two candidates are chosen: one that agrees with the label, and one without the label.  Of a ticket with one right
candidate the first is right, whatever the others say: it shows whether a right answer was among the candidates.  Only
the second is an accuracy, and screens tickets.

The gate compares the candidates of the held-out tickets under the old and the new guidance ticket by ticket; the
probability of a gain is that of a bootstrap over tickets (Efron 1979).  Shares are compared exactly: a gain of 1 in 50
reaches 0.02.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from tasks.guide.ticket import DecodeCell, GuideCandidate, TicketCandidates, Verdict

TieBreak = Literal["confidence", "temperature"]
EligibilityPolicy = Literal["selected_mismatch_or_all_wrong", "contradictions_only", "contradictions_or_all_wrong"]
AllWrongStrategy = Literal["reflect_diagnose", "manual_review"]
GroupKind = Literal["mixed", "all_wrong", "all_right"]
Outcome = Literal["applied", "uplift", "probability", "false_pass"]
Judged = tuple[Verdict, Verdict | None]
"""A label, and the verdict that was given, None for none."""

PRIORITY: tuple[GroupKind, ...] = ("mixed", "all_wrong", "all_right")  # what is first in a reflection's prompt
NONE_MEETS_POLICY = "no ticket meets the eligibility policy"
ONLY_MANUAL_REVIEW = "every ticket that meets the eligibility policy is for manual review"
NOT_BY_POLICY = "not by the eligibility policy"
MANUAL_REVIEW = "all wrong, for manual review"
RESAMPLES = 1_000


@dataclass(frozen=True)
class Signals:
    """What is measured of one candidate; all None for a malformed one, and two of them for every one."""

    label_match: bool | None = None
    self_consistency: float | None = None  # the share of the ticket's valid candidates with the same verdict
    candidate_agreement: None = None
    confidence: float | None = None
    label_trust: None = None


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


def majority(verdicts: Iterable[Verdict | None]) -> Verdict | None:
    """The verdict of most candidates; None of them are malformed and have no vote.  A tie goes to fail."""
    votes = [verdict for verdict in verdicts if verdict is not None]
    if not votes:
        return None
    return "pass" if 2 * votes.count("pass") > len(votes) else "fail"


def find(
    answered: TicketCandidates, rule: TieRule, *, store_confidence: bool, enable_consistency: bool
) -> TicketFindings:
    """The signals of each candidate, and both selections.

    Label first: the best of the candidates that agree with the label; where none does, the best of all valid ones.
    Label free: the best of those with the majority's verdict; the label only says whether that is right.
    """
    label, candidates = answered.ticket.label, answered.candidates
    valid = [candidate for candidate in candidates if candidate.verdict is not None]
    votes = Counter(candidate.verdict for candidate in valid)

    def measured(candidate: GuideCandidate) -> Signals:
        if candidate.verdict is None:
            return Signals()
        return Signals(
            label_match=candidate.verdict == label,
            self_consistency=votes[candidate.verdict] / votes.total() if enable_consistency else None,
            confidence=candidate.confidence if store_confidence else None,
        )

    signals = tuple(measured(candidate) for candidate in candidates)

    def best(among: Sequence[GuideCandidate], rule: TieRule) -> TicketSelection:
        one = min(among, key=lambda candidate: rule.order(candidate, signals[candidate.index]), default=None)
        return TicketSelection(one.index, one.verdict, one.verdict == label) if one else TicketSelection()

    verdict = majority(candidate.verdict for candidate in candidates)
    blind = replace(rule, weights=rule.weights and replace(rule.weights, label_match=0.0))
    first = best([one for one in valid if one.verdict == label] or valid, rule)
    free = best([one for one in valid if one.verdict == verdict], blind)
    return TicketFindings(answered.ticket, candidates, signals, first, free)


@dataclass(frozen=True)
class Screening:
    """The tickets to reflect on, in the order of priority and then of group ids, and why each other one is not."""

    bundle: tuple[str, ...]
    ineligible_reason: str | None
    manual_review: tuple[str, ...]
    left_out: Mapping[str, str]


def screen(
    groups: Sequence[TicketFindings], policy: EligibilityPolicy, all_wrong_strategy: AllWrongStrategy
) -> Screening:
    """The tickets of a batch that meet the policy, less those that people are to look at."""

    def meets(group: TicketFindings) -> bool:
        if policy == "contradictions_only":
            return group.kind == "mixed"
        if policy == "contradictions_or_all_wrong":
            return group.kind in ("mixed", "all_wrong")
        return not group.label_free.label_match or group.kind == "all_wrong"

    meeting = [group for group in groups if meets(group)]
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


@dataclass(frozen=True)
class TicketScores:
    """The verdicts of a ticket's candidates, None for a malformed one."""

    group_id: str
    label: Verdict
    candidates: tuple[Verdict | None, ...]

    @property
    def score(self) -> Fraction:
        """The share of the candidates that are valid and right."""
        return Fraction(self.candidates.count(self.label), max(1, len(self.candidates)))

    @property
    def judged(self) -> Judged:
        """The label and the majority's verdict."""
        return self.label, majority(self.candidates)


@dataclass(frozen=True)
class GateDecision:
    """The figures behind a decision as shares, and "applied" or the first bound that was missed."""

    uplift: float
    probability: float
    false_pass_before: float
    false_pass_after: float
    reason: Outcome


def decide(
    before: Sequence[TicketScores],
    after: Sequence[TicketScores],
    *,
    apply_if_delta: float,
    min_probability: float,
    max_false_pass_rise: float,
    seed: int,
) -> GateDecision:
    """Whether the guidance of `after` replaces that of `before`.  Both have the same tickets in the same order.

    It does when the mean score rises by at least `apply_if_delta`, of `RESAMPLES` samples of the tickets at least
    `min_probability` have a rise, and the share of false passes among the tickets with label fail rises by at most
    `max_false_pass_rise`.
    """
    if not before or [(t.group_id, t.label) for t in before] != [(t.group_id, t.label) for t in after]:
        raise ValueError("the gate compares the same tickets under two guidances, one or more")
    rises = [new.score - old.score for old, new in zip(before, after, strict=True)]
    uplift = sum(rises, Fraction(0)) / len(rises)
    # Samples with replacement, of whole numbers.
    scale, rng = math.lcm(*(rise.denominator for rise in rises)), random.Random(seed)
    whole = [int(rise * scale) for rise in rises]
    with_rise = sum(sum(rng.choices(whole, k=len(whole))) > 0 for _ in range(RESAMPLES))

    def false_passes(tickets: Sequence[TicketScores]) -> Fraction:
        verdicts = [majority(ticket.candidates) for ticket in tickets if ticket.label == "fail"]
        return Fraction(verdicts.count("pass"), max(1, len(verdicts)))

    def exact(bound: float) -> Fraction:
        """As its decimals are written: 0.02 is 1/50, which no float is."""
        return Fraction(repr(bound))

    probability, old_rate, new_rate = Fraction(with_rise, RESAMPLES), false_passes(before), false_passes(after)
    reason: Outcome = "applied"
    if uplift < exact(apply_if_delta):
        reason = "uplift"
    elif probability < exact(min_probability):
        reason = "probability"
    elif new_rate - old_rate > exact(max_false_pass_rise):
        reason = "false_pass"
    return GateDecision(float(uplift), float(probability), float(old_rate), float(new_rate), reason)


def accuracy(judged: Sequence[Judged]) -> float | None:
    """The share of tickets whose verdict is the label; a missing verdict is wrong."""
    return share(sum(label == verdict for label, verdict in judged), len(judged))


def balanced_accuracy(judged: Sequence[Judged]) -> float | None:
    """The mean of the accuracies of both labels; with one label alone, its accuracy."""
    sides = [accuracy([pair for pair in judged if pair[0] == label]) for label in ("pass", "fail")]
    found = [side for side in sides if side is not None]
    return sum(found) / len(found) if found else None


def false_pass_rate(judged: Sequence[Judged]) -> float | None:
    """Of the tickets with label fail, the share with verdict pass."""
    failing = [verdict for label, verdict in judged if label == "fail"]
    return share(failing.count("pass"), len(failing))


def share(count: int, of: int) -> float | None:
    return count / of if of else None
