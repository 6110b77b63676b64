"""Records of the tests of `tasks/guide`."""

from __future__ import annotations

from tasks.guide.choose import JudgedTicket, SelectionRule, judge
from tasks.guide.ticket import DecodeCell, GuideCandidate, Ticket, Verdict, read_candidate

BY_CONFIDENCE = SelectionRule("confidence", (DecodeCell(0.0, 1.0, 64), DecodeCell(0.8, 0.95, 64)))


def ticket(label: Verdict = "pass", group_id: str = "t-1") -> Ticket:
    return Ticket(group_id, "cables", label, {"image_1": "The cable is tied.", "image_2": "The cabinet is closed."})


def answers(*given: tuple[str, float] | None) -> tuple[GuideCandidate, ...]:
    """Candidates with these verdicts and confidences, None a malformed one.  The first is greedy."""
    texts = ["Verdict: {}\nReason: as the images show\nConfidence: {}".format(*one) if one else "?" for one in given]
    return tuple(read_candidate(i, min(i, 1), 7 + i, text, 20, "stop") for i, text in enumerate(texts))


def found(one: Ticket, *given: tuple[str, float] | None) -> JudgedTicket:
    return judge(one, answers(*given), BY_CONFIDENCE)
