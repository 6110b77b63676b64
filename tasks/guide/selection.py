"""Which candidate speaks for a ticket: one that agrees with the label, and one chosen without it.

Of a ticket with one right candidate the first choice is right, whatever the others say: it measures whether a right
answer was among the candidates.  Only the second choice is an accuracy.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tasks.guide.candidates import GuideCandidate, Signals
from tasks.guide.decoding import DecodeCell
from tasks.guide.verdict_lines import Verdict

TieBreak = Literal["confidence", "temperature"]


@dataclass(frozen=True)
class SignalWeights:
    """The weights of the sum that decides between candidates which the tie-break leaves equal."""

    label_match: float = 0.0
    self_consistency: float = 0.0
    confidence: float = 0.0


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
        return first, -_weighted(signals, self.weights or SignalWeights()), candidate.index


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
