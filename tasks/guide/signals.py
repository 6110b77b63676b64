"""What is measured of the candidates of a ticket, from their verdicts and confidences alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tasks.guide.candidates import GuideCandidate, Signals
from tasks.guide.ticket import Ticket


def compute_signals(
    ticket: Ticket, candidates: Sequence[GuideCandidate], *, store_confidence: bool, enable_consistency: bool
) -> tuple[Signals, ...]:
    """The signals of each candidate, in their order."""
    votes = Counter(candidate.verdict for candidate in candidates if candidate.verdict is not None)

    def measured(candidate: GuideCandidate) -> Signals:
        if candidate.verdict is None:
            return Signals()
        return Signals(
            label_match=candidate.verdict == ticket.label,
            self_consistency=votes[candidate.verdict] / votes.total() if enable_consistency else None,
            confidence=candidate.confidence if store_confidence else None,
        )

    return tuple(measured(candidate) for candidate in candidates)
