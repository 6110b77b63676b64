"""Plan a generation: make every random draw, in child order, before anything is dispatched.

The draws of a generation come from a generator seeded with the run's seed and the generation, so a resumed generation
makes the same draws as the interrupted one.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from deap import base

from orchestrator.evolution.individual import Individual, invalidate
from orchestrator.evolution.operators import use_rng
from orchestrator.evolution.params import Params
from orchestrator.evolution.state import Genome
from tasks.plan import Candidate, Plan


def generator(seed: int, generation: int) -> random.Random:
    return random.Random(f"whetstone {seed} {generation}")


def plan_names(generation: int) -> tuple[str, str]:
    """The names of a generation's two plans: its population, and its offspring."""
    return f"g{generation}_pop", f"g{generation}_child"


def plan_population(generation: int, population: Sequence[Individual], best: Genome | None = None) -> Plan:
    """The plan that evaluates the individuals without a valid fitness; candidates are numbered by position.

    `best` is evaluated too when it is given, as the candidate after the last position.
    """
    candidates = [
        Candidate(index, tuple(individual), individual.scratchpad)
        for index, individual in enumerate(population)
        if not individual.fitness.valid
    ]
    if best is not None:
        candidates.append(Candidate(len(population), best.deltas, best.scratchpad))
    return Plan(plan_names(generation)[0], generation, tuple(candidates))


def plan_offspring(
    generation: int, population: Sequence[Individual], params: Params, toolbox: base.Toolbox
) -> tuple[Plan, list[Individual]]:
    """The offspring of an evaluated population: their plan, and the children that its outcomes complete.

    The draws of each child, in order: crossover or not, the parent to clone if not, mutated or not.
    """
    rng = generator(params.seed, generation)
    positions = {id(individual): index for index, individual in enumerate(population)}
    with use_rng(rng):
        parents = toolbox.select(list(population))
    children, candidates = [], []
    for index, (a, b) in enumerate(zip(parents[::2], parents[1::2], strict=True)):
        if rng.random() < params.crossover_probability:
            child = toolbox.mate(a, b)
            origin: tuple[int, ...] = (positions[id(a)], positions[id(b)])
        else:
            parent = a if rng.random() < 0.5 else b
            child = toolbox.clone(parent)
            child.merge = child.target = None
            invalidate(child)
            origin = (positions[id(parent)],)
        if rng.random() < params.mutation_probability:
            toolbox.mutate(child)
        children.append(child)
        candidates.append(
            Candidate(
                index=index,
                deltas=tuple(child),
                scratchpad=child.scratchpad,
                merge=child.merge,
                target=child.target,
                parents=origin,
            )
        )
    return Plan(plan_names(generation)[1], generation, tuple(candidates)), children
