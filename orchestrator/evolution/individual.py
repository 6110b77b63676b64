"""The individual: a DEAP list of deltas that carries a scratchpad (genetic_evolution_plan.md section 1).

Deltas stand in canonical order, by ascending cluster id, so that list and dict convert without loss.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from deap import base, creator

from tasks.models import Score

creator.create("FitnessMax", base.Fitness, weights=(1.0,))
creator.create("Individual", list, fitness=creator.FitnessMax, scratchpad="", score=None, merge=None, target=None)

Individual = Any  # DEAP makes the class at run time: list[float] with fitness, scratchpad, score, merge and target


def canonical_order(cluster_ids: Sequence[str]) -> tuple[str, ...]:
    """Cluster ids in the order in which every list of deltas stands."""
    return tuple(sorted(cluster_ids, key=int))


def make_individual(deltas: Sequence[float], scratchpad: str = "") -> Individual:
    """A new individual, not yet evaluated."""
    individual = creator.Individual(deltas)
    individual.scratchpad = scratchpad
    return individual


def set_score(individual: Individual, score: Score) -> None:
    """Give an individual the fitness of an evaluation, and keep what the fitness is made of."""
    individual.fitness.values = (score.fitness,)
    individual.score = score


def invalidate(individual: Individual) -> None:
    """Forget the fitness of an individual that is new or whose genome changed (section 8)."""
    if individual.fitness.valid:
        del individual.fitness.values
    individual.score = None


def deltas_to_list(deltas: Mapping[str, float]) -> tuple[float, ...]:
    return tuple(float(deltas[cluster]) for cluster in canonical_order(list(deltas)))


def list_to_deltas(values: Sequence[float], cluster_ids: Sequence[str]) -> dict[str, float]:
    return dict(zip(cluster_ids, values, strict=True))
