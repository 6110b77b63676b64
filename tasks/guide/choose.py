"""Which candidate speaks for a ticket, which tickets are reflected on, and whether an edit of the guidance is applied.

Two candidates are chosen.  The first agrees with the label where any does: it shows whether a right answer was among
the candidates.  The second does not know the label: only it is an accuracy, and screens tickets.

The gate compares the candidates of the held-out tickets under the old and the new guidance ticket by ticket; the
probability of a gain is that of a bootstrap over tickets (Efron 1979).
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal, NamedTuple

from tasks.guide.ticket import DecodeCell, GuideCandidate, Ticket, Verdict

TieBreak = Literal["confidence", "temperature"]
EligibilityPolicy = Literal["selected_mismatch_or_all_wrong", "contradictions_only", "contradictions_or_all_wrong"]
AllWrongStrategy = Literal["reflect_diagnose", "manual_review"]
GroupKind = Literal["mixed", "all_wrong", "all_right"]
Outcome = Literal["applied", "uplift", "probability", "false_pass"]
Judged = tuple[Verdict, Verdict | None]
"""A label, and the verdict that was given, None for none."""

PRIORITY: tuple[GroupKind, ...] = ("mixed", "all_wrong", "all_right")  # what is first in a reflection's prompt
RESAMPLES = 1_000


class Votes(NamedTuple):
    """A ticket's label, and the verdicts of its candidates, None for a malformed one."""

    label: Verdict
    verdicts: tuple[Verdict | None, ...]

    @property
    def score(self) -> Fraction:
        """The share of the candidates that are valid and right."""
        return Fraction(self.verdicts.count(self.label), max(1, len(self.verdicts)))

    @property
    def judged(self) -> Judged:
        return self.label, majority(self.verdicts)


def majority(verdicts: Iterable[Verdict | None]) -> Verdict | None:
    """The verdict of most candidates; None of them are malformed and have no vote.  A tie goes to fail."""
    votes = [verdict for verdict in verdicts if verdict is not None]
    if not votes:
        return None
    return "pass" if 2 * votes.count("pass") > len(votes) else "fail"


# Signals and selections


@dataclass(frozen=True)
class Signals:
    """What is measured of one candidate; all None for a malformed one, and two of them for every one."""

    label_match: bool | None = None
    self_consistency: float | None = None  # the share of the ticket's valid candidates with the same verdict
    candidate_agreement: None = None
    confidence: float | None = None
    label_trust: None = None


@dataclass(frozen=True)
class SelectionRule:
    """Which signals are measured, and how one of several candidates is chosen.

    By the tie-break, then the weighted sum of signals, then the lower index.  `confidence` takes the higher one,
    `temperature` the lower one of the candidate's cell in `grid`.
    """

    tie_break: TieBreak
    grid: Sequence[DecodeCell]
    weights: Mapping[str, float] = field(default_factory=dict)
    store_confidence: bool = True
    enable_consistency: bool = True


@dataclass(frozen=True)
class TicketSelection:
    """The index of the chosen candidate, its verdict, and whether that is the label."""

    candidate: int | None = None
    verdict: Verdict | None = None
    label_match: bool = False


@dataclass(frozen=True)
class JudgedTicket:
    """A ticket and all that the model answered to it, with the signals of each candidate and both selections."""

    ticket: Ticket
    candidates: tuple[GuideCandidate, ...]
    signals: tuple[Signals, ...]
    label_first: TicketSelection
    label_free: TicketSelection

    @property
    def votes(self) -> Votes:
        return Votes(self.ticket.label, tuple(candidate.verdict for candidate in self.candidates))

    @property
    def kind(self) -> GroupKind:
        """How the candidates did together; without a valid one it is all wrong."""
        matches = {signal.label_match for signal in self.signals} - {None}
        return "mixed" if len(matches) == 2 else "all_right" if True in matches else "all_wrong"


def judge(ticket: Ticket, candidates: tuple[GuideCandidate, ...], rule: SelectionRule) -> JudgedTicket:
    """The signals of each candidate, and both selections.

    Label first: the best of the candidates that agree with the label; where none does, the best of all valid ones.
    Label free: the best of those with the majority's verdict; the label only says whether that is right.
    """
    label = ticket.label
    valid = [candidate for candidate in candidates if candidate.verdict is not None]
    votes = Counter(candidate.verdict for candidate in valid)

    def measured(candidate: GuideCandidate) -> Signals:
        if candidate.verdict is None:
            return Signals()
        return Signals(
            label_match=candidate.verdict == label,
            self_consistency=votes[candidate.verdict] / votes.total() if rule.enable_consistency else None,
            confidence=candidate.confidence if rule.store_confidence else None,
        )

    signals = tuple(measured(candidate) for candidate in candidates)

    def best(among: Sequence[GuideCandidate], weights: Mapping[str, float]) -> TicketSelection:
        """A signal that was not measured counts as 0."""

        def order(candidate: GuideCandidate) -> tuple[float, float, int]:
            by_confidence, found = rule.tie_break == "confidence", signals[candidate.index]
            first = -(candidate.confidence or 0.0) if by_confidence else rule.grid[candidate.cell].temperature
            weighted = sum(weight * (getattr(found, name) or 0.0) for name, weight in weights.items())
            return first, -weighted, candidate.index

        one = min(among, key=order, default=None)
        return TicketSelection(one.index, one.verdict, one.verdict == label) if one else TicketSelection()

    verdict = majority(candidate.verdict for candidate in candidates)
    first = best([one for one in valid if one.verdict == label] or valid, rule.weights)
    without_label = {name: weight for name, weight in rule.weights.items() if name != "label_match"}
    free = best([one for one in valid if one.verdict == verdict], without_label)
    return JudgedTicket(ticket, candidates, signals, first, free)


@dataclass(frozen=True)
class Screening:
    """The tickets to reflect on, in the order of priority and then of group ids, and why each other one is not."""

    bundle: tuple[str, ...]
    ineligible_reason: str | None
    manual_review: tuple[str, ...]
    left_out: Mapping[str, str]


def screen(
    groups: Sequence[JudgedTicket], policy: EligibilityPolicy, all_wrong_strategy: AllWrongStrategy
) -> Screening:
    """The tickets of a batch that meet the policy, less those that people are to look at."""

    def meets(group: JudgedTicket) -> bool:
        if policy == "contradictions_only":
            return group.kind == "mixed"
        if policy == "contradictions_or_all_wrong":
            return group.kind in ("mixed", "all_wrong")
        return not group.label_free.label_match or group.kind == "all_wrong"

    kinds = {group.ticket.group_id: group.kind for group in groups if meets(group)}
    by_hand = [name for name, kind in kinds.items() if kind == "all_wrong" and all_wrong_strategy == "manual_review"]
    kept = kinds.keys() - set(by_hand)
    left_out = {
        name: "all wrong, for manual review" if name in by_hand else "not by the eligibility policy"
        for name in (group.ticket.group_id for group in groups)
        if name not in kept
    }
    reason = None
    if not kept:
        all_by_hand = "every ticket that meets the eligibility policy is for manual review"
        reason = all_by_hand if kinds else "no ticket meets the eligibility policy"
    bundle = tuple(sorted(kept, key=lambda name: (PRIORITY.index(kinds[name]), name)))
    return Screening(bundle, reason, tuple(sorted(by_hand)), left_out)


# The gate


@dataclass(frozen=True)
class GateDecision:
    """The figures behind a decision as shares, and "applied" or the first bound that was missed."""

    uplift: float
    probability: float
    false_pass_before: float
    false_pass_after: float
    reason: Outcome


def decide(
    before: Sequence[Votes],
    after: Sequence[Votes],
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
    rises = [new.score - old.score for old, new in zip(before, after, strict=True)]
    uplift = sum(rises, Fraction(0)) / len(rises)
    # Samples with replacement, of whole numbers.
    scale, rng = math.lcm(*(rise.denominator for rise in rises)), random.Random(seed)
    whole = [int(rise * scale) for rise in rises]
    with_rise = sum(sum(rng.choices(whole, k=len(whole))) > 0 for _ in range(RESAMPLES))

    def false_passes(tickets: Sequence[Votes]) -> Fraction:
        verdicts = [majority(ticket.verdicts) for ticket in tickets if ticket.label == "fail"]
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


def judged_figures(judged: Sequence[Judged]) -> dict[str, Any]:
    """Of judged tickets; a missing verdict is wrong.  Of nothing there is no figure.

    Balanced accuracy is the mean over both labels; false passes are a share of the tickets with label fail.
    """
    sides = [[verdict for label, verdict in judged if label == side] for side in ("pass", "fail")]
    right = [sides[0].count("pass"), sides[1].count("fail")]
    accuracies = [count / len(side) for count, side in zip(right, sides, strict=True) if side]
    return {
        "tickets": len(judged),
        "right": sum(right),
        "accuracy": share(sum(right), len(judged)),
        "balanced_accuracy": sum(accuracies) / len(accuracies) if accuracies else None,
        "false_pass_rate": share(sides[1].count("pass"), len(sides[1])),
    }


def share(count: int, of: int) -> float | None:
    return count / of if of else None
