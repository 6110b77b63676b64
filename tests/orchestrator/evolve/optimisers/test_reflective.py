"""The genetic algorithm whose mutation and merge are the reflector's."""

from __future__ import annotations

import hashlib
import random
from typing import Any

import pytest
from formula import IDS, START, Formula, search

from orchestrator.evolve.optimisers.reflective import Reflective, ReflectiveParams
from orchestrator.evolve.records import edges_of, individuals_of
from tasks.plan import Outcome, Plan
from tasks.records import Score

COMMON: dict[str, Any] = {
    "seed": 7, "cluster_ids": IDS, "initial_deltas": START, "population_size": 6, "generations": 6, "sigma": 1.0,
    "crossover_probability": 0.6, "mutation_probability": 0.7, "elitism_size": 2, "selection": "tournament",
    "tournament_size": 3, "top_k": 3,
}  # fmt: skip
OPTIMISER = Reflective()


def steps(evaluate: Any, **changes: Any) -> list[Any]:
    """The last step of each generation; its state is reflective's own."""
    params = ReflectiveParams(**{**COMMON, **changes})
    return [step for step in search(OPTIMISER, params, evaluate) if step.ends_generation]


DIGESTS: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["c53d32286584", "82dd5516dd41", "4dc2a7980c84"]),
    ({"selection": "truncation"}, ["5f65fe779a91", "513e007f7c55", "864a2556ef10"]),
    ({"crossover_probability": 0.0}, ["fbc62cda51af", "51a941bbf521", "88a24c6b93ff"]),
    (
        {"crossover_probability": 1.0, "mutation_probability": 1.0},
        ["0dddc92aa4bf", "905d62b92dd6", "869e3d802a86"],
    ),
    ({"elitism_size": 0, "population_size": 9}, ["c1502376526d", "c797c54f8016", "3f662c3c8ee6"]),
]
"""Of the states' files, for three seeds: a change of them changes every run."""


@pytest.mark.parametrize(("change", "digests"), DIGESTS)
def test_the_same_seed_gives_the_states_that_it_always_gave(change: dict[str, Any], digests: list[str]) -> None:
    found = []
    for seed in (1, 2, 3):
        params = ReflectiveParams(**{**COMMON, "seed": seed, **change})
        ends = steps(Formula(shuffle=random.Random(seed)), seed=seed, **change)
        files = "".join(OPTIMISER.to_json(end.state, params) for end in ends)
        found.append(hashlib.sha256(files.encode()).hexdigest()[:12])
    assert found == digests


def test_pinned_clusters_have_no_turn() -> None:
    formula = Formula()
    ends = steps(formula, pinned=(0, 4), mutation_probability=1.0, population_size=5, elitism_size=1)
    targets = [c.target for c in formula.candidates if c.target is not None]
    assert targets[:8] == [1, 2, 3, 5, 1, 2, 3, 5]
    # What is saved is the place of the next target among all clusters, as the specification has it
    assert ends[-1].state.rr_idx == (1, 2, 3, 5)[len(targets) % 4]
    ends = steps(Formula(), pinned=(5,), mutation_probability=1.0, population_size=6, elitism_size=1)
    assert [end.state.rr_idx for end in ends] == [0] * 6  # five mutations are a round


def test_a_child_of_a_crossover_is_the_average_weighted_by_fitness() -> None:
    formula = Formula()
    generations = steps(formula, crossover_probability=1.0, generations=3)
    population = generations[1].state.population
    fitness = [evaluated.score.fitness for evaluated in generations[2].generation.population]
    for candidate in formula.plans[-1].candidates:
        a, b = candidate.parents
        pairs = zip(population[a].deltas, population[b].deltas, strict=True)
        expected = [(fitness[a] * x + fitness[b] * y) / (fitness[a] + fitness[b]) for x, y in pairs]
        assert candidate.deltas == pytest.approx(expected)
        assert candidate.merge is None or candidate.merge.fitness_a == fitness[a]


def test_only_two_different_scratchpads_that_hold_something_are_merged() -> None:
    formula = Formula()
    generations = steps(formula, crossover_probability=1.0, generations=5)
    equal = kept = 0
    for number, plan in enumerate(plan for plan in formula.plans if plan.purpose == "offspring"):
        population = [evaluated.genome for evaluated in generations[number].generation.population]
        for candidate in plan.candidates:
            a, b = (population[parent].scratchpad for parent in candidate.parents)
            assert (candidate.merge is None) == (a == b or not a or not b)
            if candidate.merge is None:
                assert candidate.scratchpad == (a or b)
                equal, kept = equal + (a == b), kept + (a != b)
    assert equal > 4 and kept


def test_a_skipped_mutation_leaves_the_child_as_it_was_and_still_uses_up_its_turn() -> None:
    generations = steps(Formula(refused=frozenset(range(4))), mutation_probability=1.0, generations=2)
    assert all(child.target is None for g in generations for child in g.generation.offspring)
    assert generations[-1].state.rr_idx == 8 % len(IDS)


def test_all_zero_fitness_gives_the_plain_average() -> None:
    def worthless(plan: Plan) -> list[Outcome]:
        return [Outcome(m.index, "", Score(0.0, 0.0, 0.0, 10.0), None, "", None, {}) for m in plan.candidates]

    [end] = steps(worthless, initial_deltas=(1.0,) * 6, crossover_probability=1.0, generations=1)
    assert all(one.deltas == (1.0,) * 6 for one in end.state.population)


def test_the_tree_names_nodes_and_edges_as_the_specification_does() -> None:
    found = steps(Formula(), generations=2, mutation_probability=1.0)
    individuals = [one for step in found for one in individuals_of(step.generation, "plain", IDS)]
    ids = {one.node for one in individuals}
    assert {"g0_pop0", "g0_child3_pre", "g0_child3_mut", "g1_pop5"} <= ids and len(ids) == 2 * (6 + 4 + 4)
    kinds = {(e["from"], e["to"]): e["kind"] for e in edges_of(individuals)}
    assert kinds["g0_child3_pre", "g0_child3_mut"] == "mutation"
    assert kinds["g0_child3_mut", "g1_pop5"] == "next"
    assert [*kinds.values()].count("next") == 6 and all({*edge} <= ids for edge in kinds)
