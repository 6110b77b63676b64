"""Verdicts of answers as letters, one for each answer, and the tickets that such letters stand for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tasks.guide.decoding import DecodeCell
from tasks.guide.figures import Judged
from tasks.guide.gate import TicketScores
from tasks.guide.verdict_lines import Malformed, Verdict, parse_three_lines, parse_verdict

FIRST_LINE = DecodeCell(0.0, 1.0, 12, stop=("\n",))
SAMPLED = ((0.0, 1.0), *[(0.5, 0.95)] * 7)  # temperature and top_p, as configs/guide_gpu.yaml
LETTERS: Mapping[Verdict | None, str] = {"pass": "p", "fail": "f", None: "x"}
VERDICTS: Mapping[str, Verdict | None] = {letter: verdict for verdict, letter in LETTERS.items()}


def first_verdict(line: str) -> Verdict | None:
    """The verdict of the first line alone, which greedy decoding writes whatever follows."""
    label, _, word = line.replace("：", ":").partition(":")
    return parse_verdict(word) if label.strip().lower() == "verdict" else None


def whole_verdict(text: str) -> Verdict | None:
    lines = parse_three_lines(text)
    return None if isinstance(lines, Malformed) else lines.verdict


def scores(labels: str, verdicts: str) -> tuple[TicketScores, ...]:
    """Tickets from the letters of their labels and of their candidates' verdicts, as many for each ticket."""
    each = len(verdicts) // len(labels)
    return tuple(
        TicketScores(str(at), _label(label), tuple(VERDICTS[one] for one in verdicts[at * each : (at + 1) * each]))
        for at, label in enumerate(labels)
    )


def _label(letter: str) -> Verdict:
    verdict = VERDICTS[letter]
    assert verdict is not None
    return verdict


def greedy(tickets: Sequence[TicketScores]) -> list[Judged]:
    return [(ticket.label, ticket.candidates[0]) for ticket in tickets]
