"""Runs of the reflective search, evaluated by a formula instead of a farm."""

from __future__ import annotations

import random
from typing import Any

from orchestrator.evolve.optimisers import SearchState, Step, canonical_order, search
from orchestrator.evolve.optimisers.reflective import Reflective, ReflectiveParams
from orchestrator.evolve.records import Tree, add_to_tree
from tasks.plan import Candidate, Outcome, Plan
from tasks.records import Score

IDS = canonical_order([str(i) for i in range(12)])


def params(**changes: object) -> ReflectiveParams:
    values = {
        "seed": 7,
        "cluster_ids": IDS,
        "initial_deltas": (0.0,) * 12,
        "population_size": 6,
        "generations": 5,
        "crossover_probability": 0.6,
        "mutation_probability": 0.7,
        "elitism_size": 2,
        "selection": "tournament",
        "tournament_size": 3,
        "top_k": 3,
    }
    return ReflectiveParams(**{**values, **changes})  # type: ignore[arg-type]  # the values' types are the fields'


def score(deltas: tuple[float, ...]) -> Score:
    """Best where every delta is its cluster's number divided by ten."""
    distance = sum((delta - i / 10) ** 2 for i, delta in enumerate(deltas))
    return Score(fitness=1 / (1 + distance), shortness=0.5, correctness=0.5, mean_tokens=10.0)


def answer(candidate: Candidate, *, skip: frozenset[int] = frozenset()) -> Outcome:
    """A perfect reflector: it moves the target cluster to where the formula wants it."""
    scratchpad = (
        f"({candidate.merge.scratchpad_a}|{candidate.merge.scratchpad_b})" if candidate.merge else candidate.scratchpad
    )
    if candidate.target is None or candidate.index in skip:
        return Outcome(candidate.index, scratchpad, score(candidate.deltas), None, scratchpad, None, {"answer": 1.0})
    changed = list(candidate.deltas)
    changed[candidate.target] = candidate.target / 10 + 0.001
    mut = score(tuple(changed))
    return Outcome(
        candidate.index,
        scratchpad,
        score(candidate.deltas),
        changed[candidate.target],
        f"{candidate.target}",
        mut,
        {"answer": 2.0},
    )


class Formula:
    """Evaluates plans and remembers them; answers in a shuffled order when it is given a generator."""

    def __init__(self, shuffle: random.Random | None = None, skip: frozenset[int] = frozenset()) -> None:
        self.plans: list[Plan] = []
        self.shuffle = shuffle
        self.skip = skip

    def __call__(self, plan: Plan) -> list[Outcome]:
        self.plans.append(plan)
        outcomes = [answer(candidate, skip=self.skip) for candidate in plan.candidates]
        if self.shuffle:
            self.shuffle.shuffle(outcomes)
        return outcomes


def run(
    parameters: ReflectiveParams, formula: Formula, tree: Tree | None = None, start: SearchState | None = None
) -> list[Any]:
    """The last turn of each generation; its state is reflective's own."""
    optimiser, ends = Reflective(), list[Step]()
    for turn in search(optimiser, start or optimiser.init(parameters), parameters, formula):
        if turn.ends_generation:
            ends.append(turn)
            if tree is not None:
                add_to_tree(tree, turn.generation, IDS)
    return ends
