"""The figures of a run, each with its 95 % interval and the number of what it was counted on."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist

from tasks.guide.gate import TicketScores
from tasks.guide.selection import majority
from tasks.guide.verdict_lines import Verdict

LEVEL = 0.95
RESAMPLES = 2_000
_Z = NormalDist().inv_cdf((1 + LEVEL) / 2)

Judged = tuple[Verdict, Verdict | None]
"""A label, and the verdict that was given, None for none."""


@dataclass(frozen=True)
class Measure:
    """A figure, its interval, and how many tickets, reflections or rules it is of; of none it has no value."""

    value: float | None
    low: float | None
    high: float | None
    count: int


UNMEASURED = Measure(None, None, None, 0)


def share(successes: int, count: int) -> Measure:
    """A share with its Wilson score interval (Wilson 1927)."""
    if count == 0:
        return UNMEASURED
    found = successes / count
    centre = (found + _Z**2 / (2 * count)) / (1 + _Z**2 / count)
    half = _Z / (1 + _Z**2 / count) * math.sqrt(found * (1 - found) / count + _Z**2 / (4 * count**2))
    return Measure(found, max(0.0, min(found, centre - half)), min(1.0, max(found, centre + half)), count)


def accuracy(judged: Sequence[Judged]) -> Measure:
    """The share of tickets whose verdict is the label; a missing verdict is wrong."""
    return share(sum(label == verdict for label, verdict in judged), len(judged))


def balanced_accuracy(judged: Sequence[Judged]) -> Measure:
    """The mean of the accuracies of both labels; with one label alone, its accuracy.

    The interval is made of those of the two shares, as for a sum of estimates (Zou and Donner 2008).
    """
    sides = [accuracy([pair for pair in judged if pair[0] == label]) for label in ("pass", "fail")]
    found = [(side.value, side.low, side.high) for side in sides]
    parts = [(v, low, high) for v, low, high in found if v is not None and low is not None and high is not None]
    if not parts:
        return UNMEASURED
    value = math.fsum(v for v, _, _ in parts) / len(parts)
    below = math.hypot(*(v - low for v, low, _ in parts)) / len(parts)
    above = math.hypot(*(high - v for v, _, high in parts)) / len(parts)
    return Measure(value, max(0.0, value - below), min(1.0, value + above), len(judged))


def false_pass_rate(judged: Sequence[Judged]) -> Measure:
    """Of the tickets with label fail, the share with verdict pass."""
    failing = [verdict for label, verdict in judged if label == "fail"]
    return share(failing.count("pass"), len(failing))


def majority_pairs(tickets: Sequence[TicketScores]) -> tuple[Judged, ...]:
    """The label and the majority's verdict of each ticket."""
    return tuple((ticket.label, majority(ticket.candidates)) for ticket in tickets)


def pass_at(k: int, tickets: Sequence[TicketScores]) -> Measure:
    """The mean chance that of k candidates of a ticket one is right (Chen et al. 2021), with a bootstrap interval.

    Raises: ValueError for a ticket with fewer than k candidates.
    """
    return mean([_chance_of_one(k, ticket) for ticket in tickets])


def _chance_of_one(k: int, ticket: TicketScores) -> float:
    count, right = len(ticket.candidates), ticket.candidates.count(ticket.label)
    if not 0 < k <= count:
        raise ValueError(f"pass@{k} needs {k} candidates of each ticket, and {ticket.group_id} has {count}")
    return 1 - math.comb(count - right, k) / math.comb(count, k)


def mean(values: Sequence[float], seed: int = 0) -> Measure:
    """A mean with its percentile bootstrap interval (Efron 1979)."""
    if not values:
        return UNMEASURED
    rng, count = random.Random(seed), len(values)
    return _between(math.fsum(values) / count, [_resampled(values, rng) for _ in range(RESAMPLES)], count)


def balanced_gain(before: Sequence[Judged], after: Sequence[Judged], seed: int = 0) -> Measure:
    """How much more balanced accuracy `after` has on the same tickets; a bootstrap over tickets within each label.

    Raises: ValueError where the labels differ.
    """
    if [label for label, _ in before] != [label for label, _ in after]:
        raise ValueError("a paired comparison is of the same tickets")
    rises: dict[str, list[float]] = {}
    for (label, old), (_, new) in zip(before, after, strict=True):
        rises.setdefault(label, []).append(float((new == label) - (old == label)))
    if not rises:
        return UNMEASURED
    rng, sides = random.Random(seed), list(rises.values())
    value = math.fsum(math.fsum(side) / len(side) for side in sides) / len(sides)
    drawn = [math.fsum(_resampled(side, rng) for side in sides) / len(sides) for _ in range(RESAMPLES)]
    return _between(value, drawn, len(before))


def reflection_precision(rates: Sequence[tuple[float, float]]) -> Measure:
    """Of the applied reflections, the share after which the rate of right verdicts is higher.

    Each is the rate before and after.  Paired, both rates are of the next batch, judged with the same seeds under the
    old and the new guidance.  Unpaired, they are of the batch that was reflected on and of the next one.
    """
    return share(sum(after > before for before, after in rates), len(rates))


def unpaired_rates(batches: Sequence[float], applied: Sequence[bool]) -> tuple[tuple[float, float], ...]:
    """The rates of an applied reflection's batch and of the next one, for each that has a next one."""
    return tuple(rates for rates, is_applied in zip(pairwise(batches), applied, strict=False) if is_applied)


def _resampled(values: Sequence[float], rng: random.Random) -> float:
    return math.fsum(rng.choices(values, k=len(values))) / len(values)


def _between(value: float, drawn: Sequence[float], count: int) -> Measure:
    ordered = sorted(drawn)
    low, high = (ordered[round(place * (len(ordered) - 1))] for place in ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return Measure(value, min(value, low), max(value, high), count)
