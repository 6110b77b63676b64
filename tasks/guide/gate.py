"""The gate: whether edited guidance is applied, by what it does to the held-out tickets; and the figures of a run.

Candidates under the old and the new guidance are compared ticket by ticket; the probability of a gain is that of a
bootstrap over tickets (Efron 1979).  Shares are compared exactly: a gain of 1 in 50 reaches 0.02.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Literal

from tasks.guide.choose import majority
from tasks.guide.ticket import Verdict

RESAMPLES = 1_000
Outcome = Literal["applied", "uplift", "probability", "false_pass"]
Judged = tuple[Verdict, Verdict | None]
"""A label, and the verdict that was given, None for none."""


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
    resamples: int = RESAMPLES,
) -> GateDecision:
    """Whether the guidance of `after` replaces that of `before`.  Both have the same tickets in the same order.

    It does when the mean score rises by at least `apply_if_delta`, of `resamples` samples of the tickets at least
    `min_probability` have a rise, and the share of false passes among the tickets with label fail rises by at most
    `max_false_pass_rise`.
    """
    if not before or [(t.group_id, t.label) for t in before] != [(t.group_id, t.label) for t in after]:
        raise ValueError("the gate compares the same tickets under two guidances, one or more")
    rises = [new.score - old.score for old, new in zip(before, after, strict=True)]
    uplift = sum(rises, Fraction(0)) / len(rises)
    probability = Fraction(_samples_with_rise(rises, random.Random(seed), resamples), resamples)
    old_rate, new_rate = _false_pass_rate(before), _false_pass_rate(after)
    reason: Outcome = "applied"
    if uplift < exact_bound(apply_if_delta):
        reason = "uplift"
    elif probability < exact_bound(min_probability):
        reason = "probability"
    elif new_rate - old_rate > exact_bound(max_false_pass_rise):
        reason = "false_pass"
    return GateDecision(float(uplift), float(probability), float(old_rate), float(new_rate), reason)


def exact_bound(bound: float) -> Fraction:
    """A bound as its decimals are written: 0.02 is 1/50, which no float is."""
    return Fraction(repr(bound))


def _samples_with_rise(rises: Sequence[Fraction], rng: random.Random, resamples: int) -> int:
    """How many samples of the tickets, drawn with replacement, have a positive mean; counted in whole numbers."""
    scale = math.lcm(*(rise.denominator for rise in rises))
    whole = [int(rise * scale) for rise in rises]
    return sum(sum(rng.choices(whole, k=len(whole))) > 0 for _ in range(resamples))


def _false_pass_rate(tickets: Sequence[TicketScores]) -> Fraction:
    """Of the tickets with label fail, the share whose majority passes; 0 where there are none."""
    verdicts = [majority(ticket.candidates) for ticket in tickets if ticket.label == "fail"]
    return Fraction(verdicts.count("pass"), max(1, len(verdicts)))


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
