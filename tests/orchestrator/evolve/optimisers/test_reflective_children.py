"""The children of the reflective search: elites, crossover, clones and mutations."""

from __future__ import annotations

import itertools

import pytest
from reflective_run import Formula, params, run

from orchestrator.evolve.optimisers import search
from orchestrator.evolve.optimisers.reflective import Reflective
from orchestrator.evolve.records import Tree
from tasks.plan import Outcome, Plan
from tasks.records import Score


def test_elites_enter_the_next_population_unchanged_and_first() -> None:
    generations = run(params(mutation_probability=1.0), Formula())
    for earlier, later in itertools.pairwise(generations):
        best = sorted((e.score.fitness for e in earlier.generation.population), reverse=True)[:2]
        assert [e.score.fitness for e in later.generation.population[:2]] == best


def test_targets_go_round_and_the_position_is_kept_in_the_state() -> None:
    formula = Formula()
    generations = run(params(mutation_probability=1.0, generations=4), formula)
    targets = [m.target for plan in formula.plans for m in plan.candidates if m.target is not None]
    assert targets == [i % 12 for i in range(16)]
    assert generations[-1].state.rr_idx == 16 % 12


def test_a_child_of_a_crossover_is_the_average_weighted_by_fitness() -> None:
    formula = Formula()
    generations = run(params(crossover_probability=1.0, generations=3), formula)
    population = generations[1].state.population
    fitness = [evaluated.score.fitness for evaluated in generations[2].generation.population]
    for candidate in formula.plans[-1].candidates:
        a, b = candidate.parents
        expected = [
            (fitness[a] * x + fitness[b] * y) / (fitness[a] + fitness[b])
            for x, y in zip(population[a].deltas, population[b].deltas, strict=True)
        ]
        assert candidate.deltas == pytest.approx(expected)
        if candidate.merge is not None:
            assert (candidate.merge.fitness_a, candidate.merge.fitness_b) == (fitness[a], fitness[b])
    assert any(candidate.merge for candidate in formula.plans[-1].candidates)


def test_only_two_different_scratchpads_that_hold_something_are_merged() -> None:
    """Given parents that are one individual, or whose scratchpads are equal or one of them empty, no call is made."""
    formula = Formula()
    generations = run(params(crossover_probability=1.0, generations=3), formula)
    pairs = kept = 0
    for number, plan in enumerate(plan for plan in formula.plans if plan.purpose == "offspring"):
        population = [evaluated.genome for evaluated in generations[number].generation.population]
        for candidate in plan.candidates:
            a, b = (population[parent].scratchpad for parent in candidate.parents)
            assert (candidate.merge is None) == (a == b or not a or not b)
            if a != b and candidate.merge is None:
                assert candidate.scratchpad == (a or b)
                kept += 1
            if a == b:
                assert candidate.scratchpad == a
                pairs += 1
        assert number or all(candidate.merge is None for candidate in plan.candidates), "all are empty at the start"
    assert pairs > 4
    assert kept, "a scratchpad that holds something, beside an empty one, is the child's"


def test_without_crossover_a_child_is_its_one_parent_word_for_word() -> None:
    formula = Formula()
    generations = run(params(crossover_probability=0.0, generations=3, mutation_probability=1.0), formula)
    for generation, plan in zip(generations, formula.plans[2:], strict=False):
        for candidate in plan.candidates:
            parent = generation.state.population[candidate.parents[0]]
            assert (candidate.deltas, candidate.scratchpad, candidate.merge) == (parent.deltas, parent.scratchpad, None)
            assert len(candidate.parents) == 1


def test_a_skipped_mutation_leaves_the_child_as_it_was_and_still_uses_up_its_turn() -> None:
    formula = Formula(skip=frozenset(range(4)))
    tree: Tree = {"nodes": [], "edges": []}
    generations = run(params(mutation_probability=1.0, generations=2), formula, tree)
    assert all(child.target is None for g in generations for child in g.generation.offspring)
    assert not any(node["stage"] == "mut" for node in tree["nodes"])
    assert generations[-1].state.rr_idx == 8


def test_all_zero_fitness_gives_the_plain_average() -> None:
    zero = Score(0.0, 0.0, 0.0, 10.0)

    def worthless(plan: Plan) -> list[Outcome]:
        return [Outcome(m.index, "", zero, None, "", None, {}) for m in plan.candidates]

    parameters = params(initial_deltas=(1.0,) * 12, crossover_probability=1.0, generations=1)
    *_, end = search(Reflective(), Reflective().init(parameters), parameters, worthless)
    assert all(g.deltas == (1.0,) * 12 for g in end.state.population)  # type: ignore[attr-defined]  # reflective's own
