"""Read `history.jsonl` records as series that can be drawn: missing, null and non-finite values become gaps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Record = Mapping[str, Any]
NAN = float("nan")


def number(value: Any) -> float:
    """The value as a float, NaN when it is missing or not finite: matplotlib leaves a gap there."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return NAN
    return float(value) if math.isfinite(value) else NAN


@dataclass(frozen=True)
class Spread:
    """One measure over the individuals of one generation."""

    low: float
    mean: float
    high: float


@dataclass(frozen=True)
class Champion:
    """The best individual known at a moment. `when` is g for a population, g + 0.5 for the children of g."""

    when: float
    fitness: float
    mean_tokens: float
    correctness: float


def generations(history: Sequence[Record]) -> list[int]:
    return [int(record["generation"]) for record in history]


def values(record: Record, group: str, measure: str) -> list[float]:
    """The finite values of a measure in "population" or "offspring"."""
    found = (number(individual.get(measure)) for individual in record.get(group) or ())
    return [value for value in found if not math.isnan(value)]


def spread(record: Record, measure: str) -> Spread:
    """The population's range and mean of a measure; all NaN when nobody has a value."""
    found = values(record, "population", measure)
    if not found:
        return Spread(NAN, NAN, NAN)
    return Spread(min(found), math.fsum(found) / len(found), max(found))


def champions(history: Sequence[Record]) -> list[Champion]:
    """The best individual so far, after each population and after each generation's children.

    Ties stay with the earlier individual, as the run's own best-ever does (genetic_evolution_plan.md section 1).
    """
    best: Champion | None = None
    line: list[Champion] = []
    for record in history:
        for group, offset in (("population", 0.0), ("offspring", 0.5)):
            when = int(record["generation"]) + offset
            for individual in record.get(group) or ():
                fitness = number(individual.get("fitness"))
                if math.isnan(fitness) or (best is not None and fitness <= best.fitness):
                    continue
                tokens, correct = number(individual.get("mean_tokens")), number(individual.get("correctness"))
                best = Champion(when, fitness, tokens, correct)
            if best is not None:
                line.append(Champion(when, best.fitness, best.mean_tokens, best.correctness))
    return line
