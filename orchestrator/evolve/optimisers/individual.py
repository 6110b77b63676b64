"""The individual: a DEAP list of deltas with a scratchpad.

Deltas are in canonical order, by ascending cluster id, so that list and dict convert without loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deap import base, creator

from tasks.records import Score

creator.create("FitnessMax", base.Fitness, weights=(1.0,))
creator.create("Individual", list, fitness=creator.FitnessMax, scratchpad="", score=None, merge=None, target=None)

Individual = Any  # DEAP makes the class at run time: list[float] with fitness, scratchpad, score, merge and target


def canonical_order(cluster_ids: Sequence[str]) -> tuple[str, ...]:
    """Cluster ids in the order of every list of deltas."""
    return tuple(sorted(cluster_ids, key=int))


def make_individual(deltas: Sequence[float], scratchpad: str = "") -> Individual:
    """A new individual, not yet evaluated."""
    individual = creator.Individual(deltas)
    individual.scratchpad = scratchpad
    return individual


def set_score(individual: Individual, score: Score) -> None:
    """Set the fitness of an evaluated individual, and keep the score that it comes from."""
    individual.fitness.values = (score.fitness,)
    individual.score = score


def invalidate(individual: Individual) -> None:
    """Delete the fitness of an individual whose deltas or scratchpad changed."""
    if individual.fitness.valid:
        del individual.fitness.values
    individual.score = None


def list_to_deltas(values: Sequence[float], cluster_ids: Sequence[str]) -> dict[str, float]:
    return dict(zip(cluster_ids, values, strict=True))
