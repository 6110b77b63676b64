"""Which cluster is mutated next: round robin over the canonical order, its position part of the saved state.

DEAP's toolbox with our own `mate` and `mutate` (genetic_evolution_plan.md sections 3 and 4).

Both operators decide at once and leave the language model's part for later: `mate` hangs the merge of the
scratchpads on the child, `mutate` the target cluster.  The farm fulfils them (see `tasks.plan`), so that every
draw of a generation is made, in child order, before anything is dispatched.

DEAP's selections draw from the module `random`; `use_rng` lends them a generator of ours.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from deap import base, tools

from orchestrator.evolution.individual import Individual, invalidate, make_individual
from orchestrator.evolution.params import Params
from tasks.plan import Merge


class RoundRobin:
    """The driver's mutable state `rr_state` (genetic_evolution_plan.md section 1): cluster ids and `rr_idx`."""

    def __init__(self, cluster_ids: Sequence[str], rr_idx: int = 0) -> None:
        """Raises: ValueError when `rr_idx` is not a position in `cluster_ids`."""
        if not 0 <= rr_idx < len(cluster_ids):
            raise ValueError(f"rr_idx {rr_idx} is not in 0..{len(cluster_ids) - 1}")
        self.cluster_ids = tuple(cluster_ids)
        self.rr_idx = rr_idx

    def take(self) -> int:
        """The position of the target cluster of this mutation; the next call gives the next one."""
        taken = self.rr_idx
        self.rr_idx = (self.rr_idx + 1) % len(self.cluster_ids)
        return taken


def make_toolbox(params: Params, rr_state: RoundRobin) -> base.Toolbox:
    """A toolbox with individual, clone, elites, select, mate and mutate."""
    toolbox = base.Toolbox()
    toolbox.register("individual", make_individual, params.initial_deltas)
    toolbox.register("clone", copy.deepcopy)
    toolbox.register("elites", tools.selBest, k=params.elitism_size)
    toolbox.register("mate", mate)
    toolbox.register("mutate", make_mutate(rr_state))
    parents = 2 * params.offspring_size
    if params.selection == "tournament":
        toolbox.register("select", tools.selTournament, k=parents, tournsize=params.tournament_size)
    else:
        toolbox.register("select", select_truncation, k=parents, top_k=params.top_k)
    return toolbox


def mate(ind1: Individual, ind2: Individual) -> Individual:
    """One child: deltas averaged with the parents' fitnesses as weights, and the merge that it still owes.

    Both parents need a valid fitness; they stay as they are.
    """
    f1, f2 = ind1.fitness.values[0], ind2.fitness.values[0]
    total = f1 + f2
    weights = (f1 / total, f2 / total) if total != 0 else (0.5, 0.5)
    child = make_individual([weights[0] * a + weights[1] * b for a, b in zip(ind1, ind2, strict=True)])
    child.merge = Merge(ind1.scratchpad, f1, ind2.scratchpad, f2)
    invalidate(child)
    return child


def make_mutate(rr_state: RoundRobin) -> Callable[[Individual], Individual]:
    """`mutate(ind)`: a closure over the driver's round robin that sets `ind.target`, in place."""

    def mutate(individual: Individual) -> Individual:
        individual.target = rr_state.take()
        return individual

    return mutate


def select_truncation(individuals: list[Individual], k: int, top_k: int) -> list[Individual]:
    """The best `top_k`, and from them `k` parents with replacement (section 2)."""
    drawn: list[Individual] = tools.selRandom(tools.selBest(individuals, top_k), k)
    return drawn


@contextmanager
def use_rng(rng: random.Random) -> Iterator[None]:
    """Inside the block, DEAP's own draws come from `rng`; the module's generator is left as it was found."""
    before = random.getstate()
    random.setstate(rng.getstate())
    try:
        yield
    finally:
        rng.setstate(random.getstate())
        random.setstate(before)
