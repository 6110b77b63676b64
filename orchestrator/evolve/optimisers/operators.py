"""The operators of the genetic algorithm, registered in a DEAP toolbox.

`mate` and `mutate` only record what a language model has to do: `mate` sets the merge of the scratchpads on the child,
`mutate` the cluster to change.  The farm does it later (see `tasks.plan`), so that every random draw of a generation is
made, in child order, before anything is dispatched.  The cluster to change is chosen round robin, in canonical order.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from deap import base, tools

from orchestrator.evolve.optimisers.individual import Individual, invalidate, make_individual
from tasks.plan import Merge

if TYPE_CHECKING:
    from orchestrator.evolve.optimisers.reflective import ReflectiveParams


class RoundRobin:
    """Chooses the cluster of each mutation in turn; `rr_idx`, the place of the next one, is saved with the run."""

    def __init__(self, positions: Sequence[int], rr_idx: int = 0) -> None:
        """`positions` are of the clusters that may change."""
        if not 0 <= rr_idx < len(positions):
            raise ValueError(f"rr_idx {rr_idx} is not in 0..{len(positions) - 1}")
        self.positions = tuple(positions)
        self.rr_idx = rr_idx

    def next(self) -> int:
        """The position of the cluster to mutate; the next call returns the one after it."""
        position = self.positions[self.rr_idx]
        self.rr_idx = (self.rr_idx + 1) % len(self.positions)
        return position


def make_toolbox(params: ReflectiveParams, round_robin: RoundRobin) -> base.Toolbox:
    """A toolbox with clone, elites, select, mate and mutate."""
    toolbox = base.Toolbox()
    toolbox.register("clone", clone)
    toolbox.register("elites", tools.selBest, k=params.elitism_size)
    toolbox.register("mate", mate)
    toolbox.register("mutate", make_mutate(round_robin))
    parents = 2 * params.offspring_size
    if params.selection == "tournament":
        toolbox.register("select", tools.selTournament, k=parents, tournsize=params.tournament_size)
    else:
        toolbox.register("select", select_truncation, k=parents, top_k=params.top_k)
    return toolbox


def mate(ind1: Individual, ind2: Individual) -> Individual:
    """One child: the parents' deltas averaged with their fitnesses as weights, and the merge of their scratchpads.

    Only two different scratchpads that hold something are merged.  Where both are equal, the child has the same one,
    and where one is empty, the other.
    Both parents need a valid fitness; they are not changed.
    """
    f1, f2 = ind1.fitness.values[0], ind2.fitness.values[0]
    total = f1 + f2
    weights = (f1 / total, f2 / total) if total != 0 else (0.5, 0.5)
    child = make_individual([weights[0] * a + weights[1] * b for a, b in zip(ind1, ind2, strict=True)])
    first, second = ind1.scratchpad, ind2.scratchpad
    if first.strip() and second.strip() and first.strip() != second.strip():
        child.merge = Merge(first, f1, second, f2)
    else:
        child.scratchpad = first if first.strip() else second
    invalidate(child)
    return child


def clone(individual: Individual) -> Individual:
    """A copy of its parent that has not been evaluated."""
    child = copy.deepcopy(individual)
    child.merge = child.target = None
    invalidate(child)
    return child


def make_mutate(round_robin: RoundRobin) -> Callable[[Individual], Individual]:
    """`mutate(individual)`, which sets `individual.target` to the next cluster, in place."""

    def mutate(individual: Individual) -> Individual:
        individual.target = round_robin.next()
        return individual

    return mutate


def select_truncation(individuals: list[Individual], k: int, top_k: int) -> list[Individual]:
    """`k` parents, drawn with replacement from the best `top_k`."""
    parents: list[Individual] = tools.selRandom(tools.selBest(individuals, top_k), k)
    return parents


@contextmanager
def use_rng(rng: random.Random) -> Iterator[None]:
    """Inside the block, DEAP draws from `rng`, not from the module `random`, whose state is restored afterwards."""
    before = random.getstate()
    random.setstate(rng.getstate())
    try:
        yield
    finally:
        rng.setstate(random.getstate())
        random.setstate(before)
