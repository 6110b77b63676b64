"""The genetic algorithm whose mutation and merge are the reflector's."""

from __future__ import annotations

import hashlib
import json
import random
from typing import Any

import pytest
from formula import IDS, START, Formula

from orchestrator.evolve.optimisers import search
from orchestrator.evolve.optimisers.reflective import Reflective, ReflectiveParams, ReflectiveState, elites
from orchestrator.evolve.records import Tree, add_to_tree

COMMON: dict[str, Any] = {
    "seed": 7, "cluster_ids": IDS, "initial_deltas": START, "population_size": 6, "generations": 6,
    "crossover_probability": 0.6, "mutation_probability": 0.7, "elitism_size": 2, "selection": "tournament",
    "tournament_size": 3, "top_k": 3,
}  # fmt: skip
OPTIMISER = Reflective()


def run(formula: Formula, start: ReflectiveState | None = None, **changes: Any) -> list[ReflectiveState]:
    """The states at the ends of generations."""
    params = ReflectiveParams(**{**COMMON, **changes})
    first = start or OPTIMISER.init(params)
    turns = search(OPTIMISER, first, params, formula)
    ends: dict[int, Any] = {}
    for turn in turns:
        ends[turn.state.generation] = turn.state
    return [state for generation, state in sorted(ends.items()) if generation > first.generation]


DIGESTS: list[tuple[dict[str, Any], list[str]]] = [
    (
        {},
        ["c53d32286584 fadf2a381c1d", "82dd5516dd41 147644377147", "4dc2a7980c84 d6420166917a"],
    ),
    (
        {"selection": "truncation"},
        ["5f65fe779a91 49c845a6ee02", "513e007f7c55 46ca97a0181a", "864a2556ef10 8a33cec6f0d2"],
    ),
    (
        {"crossover_probability": 0.0},
        ["fbc62cda51af 862a24a4a5f9", "51a941bbf521 e07ee43df506", "88a24c6b93ff 132581fbc113"],
    ),
    (
        {"crossover_probability": 1.0, "mutation_probability": 1.0},
        ["0dddc92aa4bf 491189e54417", "905d62b92dd6 1e16b557bea8", "869e3d802a86 a6e39f1a70d9"],
    ),
    (
        {"mutation_probability": 0.0},
        ["ed931b111082 9d026eae0303", "ed931b111082 2a9da980e80e", "ed931b111082 4afd75261ae5"],
    ),
    (
        {"elitism_size": 0, "population_size": 9},
        ["c1502376526d afad47a090c3", "c797c54f8016 a2162d10757a", "3f662c3c8ee6 5f37c195f435"],
    ),
    (
        {"initial_deltas": (1.0, -2.0, 0.5, 0.0, 0.0, 3.0)},
        ["75749fb19636 93ae1288bbb1", "852670fab68c c63ea49df17e", "abfa80e5c65d 38cfab80279c"],
    ),
]


@pytest.mark.parametrize(("change", "digests"), DIGESTS)
def test_the_same_seed_gives_the_states_and_the_tree_that_it_always_gave(
    change: dict[str, Any], digests: list[str]
) -> None:
    """The digests are of the states' files and of the tree, for three seeds: a change of them changes every run."""
    found = []
    for seed in (1, 2, 3):
        params, files = ReflectiveParams(**{**COMMON, "seed": seed, **change}), ""
        tree: Tree = {"nodes": [], "edges": []}
        for turn in search(OPTIMISER, OPTIMISER.init(params), params, Formula(shuffle=random.Random(seed))):
            if turn.ends_generation:
                files += OPTIMISER.to_json(turn.state, params)
                add_to_tree(tree, turn.generation, IDS)
        found.append(f"{digest(files)} {digest(json.dumps(tree))}")
    assert found == digests


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def test_the_elites_are_the_best_and_come_first() -> None:
    params = ReflectiveParams(**COMMON)
    state = run(Formula())[2]
    population = state.population
    best = sorted((m.score.fitness for m in population if m.score), reverse=True)[:2]
    assert [population[i].score.fitness for i in elites(state, params) if population[i].score] == best  # type: ignore[union-attr]


def test_pinned_clusters_have_no_turn() -> None:
    formula = Formula()
    states = run(formula, pinned=(0, 4), mutation_probability=1.0, population_size=5, elitism_size=1)
    targets = [c.target for c in formula.candidates if c.target is not None]
    assert targets[:8] == [1, 2, 3, 5, 1, 2, 3, 5]
    assert states[-1].rr_idx == len(targets) % 4
