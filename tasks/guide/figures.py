"""The figures of a run.  Of nothing there is no figure: None."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tasks.guide.gate import TicketScores
from tasks.guide.selection import majority
from tasks.guide.verdict_lines import Verdict

Judged = tuple[Verdict, Verdict | None]
"""A label, and the verdict that was given, None for none."""


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


def majority_pairs(tickets: Sequence[TicketScores]) -> tuple[Judged, ...]:
    """The label and the majority's verdict of each ticket."""
    return tuple((ticket.label, majority(ticket.candidates)) for ticket in tickets)


def unpaired_rates(batches: Sequence[float], applied: Sequence[bool]) -> tuple[tuple[float, float], ...]:
    """The rates of an applied reflection's batch and of the next one, for each that has a next one."""
    return tuple(rates for rates, is_applied in zip(pairwise(batches), applied, strict=False) if is_applied)


def share(count: int, of: int) -> float | None:
    return count / of if of else None
