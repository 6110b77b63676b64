"""Records of the tests of `tasks/guide`."""

from __future__ import annotations

from collections.abc import Sequence

from tasks.guide.choose import TicketFindings, TicketScores, TieRule, find
from tasks.guide.ticket import DecodeCell, GuideCandidate, Ticket, TicketCandidates, Verdict, read_candidate

GRID = (DecodeCell(0.0, 1.0, 64), DecodeCell(0.8, 0.95, 64))


def ticket(label: Verdict = "pass", group_id: str = "t-1") -> Ticket:
    return Ticket(group_id, "cables", label, {"image_1": "The cable is tied.", "image_2": "The cabinet is closed."})


def reply(verdict: str, confidence: float = 0.5) -> str:
    return f"Verdict: {verdict}\nReason: as the images show\nConfidence: {confidence}"


def answers(*given: tuple[str, float] | None) -> tuple[GuideCandidate, ...]:
    """Candidates with these verdicts and confidences, None a malformed one.  The first is greedy."""
    texts = ["I cannot tell." if pair is None else reply(*pair) for pair in given]
    return tuple(read_candidate(i, min(i, 1), 7 + i, text, 20, "stop") for i, text in enumerate(texts))


def found(one: Ticket, candidates: tuple[GuideCandidate, ...]) -> TicketFindings:
    rule = TieRule("confidence", GRID)
    return find(TicketCandidates(one, candidates), rule, store_confidence=True, enable_consistency=True)


def scores(label: Verdict, right: int, wrong: int, malformed: int = 0, group_id: str = "t-1") -> TicketScores:
    other: Verdict = "fail" if label == "pass" else "pass"
    return TicketScores(group_id, label, (*[label] * right, *[other] * wrong, *[None] * malformed))


def tickets(outcomes: Sequence[tuple[Verdict, int, int]]) -> list[TicketScores]:
    """One ticket for each (label, right candidates, wrong candidates)."""
    return [scores(*outcome, group_id=f"t-{number}") for number, outcome in enumerate(outcomes)]
