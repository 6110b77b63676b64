"""The genetic algorithm behind the protocol is the one of `orchestrator.evolution.loop`, draw for draw."""

from __future__ import annotations

import random
from typing import Any

import pytest
from formula import CLUSTERS, IDS, START, Formula

from orchestrator.evolution.lineage import Lineage
from orchestrator.evolution.loop import evolve
from orchestrator.evolution.params import Params
from orchestrator.evolution.state import initial_state, state_from_json, state_to_json
from orchestrator.optimisers.base import Evaluated, search
from orchestrator.optimisers.reflective import (
    Reflective,
    ReflectiveParams,
    ReflectiveState,
    elites,
    from_specification,
    offspring,
    to_specification,
)

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


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(
    "change",
    [
        {},
        {"selection": "truncation"},
        {"crossover_probability": 0.0},
        {"crossover_probability": 1.0, "mutation_probability": 1.0},
        {"mutation_probability": 0.0},
        {"elitism_size": 0, "population_size": 9},
        {"initial_deltas": (1.0, -2.0, 0.5, 0.0, 0.0, 3.0)},
    ],
)
def test_it_draws_and_decides_as_the_loop_does(seed: int, change: dict[str, Any]) -> None:
    values = {**COMMON, "seed": seed, **change}
    params, formula = Params(**values), Formula()
    expected = [g.state for g in evolve(initial_state(params), params, formula, Lineage())]

    states = run(Formula(shuffle=random.Random(seed)), **{"seed": seed, **change})

    assert [to_specification(state) for state in states] == expected
    assert [state_to_json(to_specification(s), IDS) for s in states] == [state_to_json(s, IDS) for s in expected]


def test_it_plans_the_same_children_with_the_same_merges_targets_and_parents() -> None:
    loop, params = Formula(), ReflectiveParams(**COMMON)
    list(evolve(initial_state(Params(**COMMON)), Params(**COMMON), loop, Lineage()))
    planned = {plan.name: plan for plan in loop.plans}

    formula, state = Formula(), OPTIMISER.init(params)
    while not OPTIMISER.is_finished(state, params):
        plan = OPTIMISER.ask(state, params)
        outcomes = formula(plan)
        if plan.name.endswith("_child"):
            whole, _ = offspring(state, params, outcomes)
            assert whole == planned[plan.name]
        assert set(plan.candidates) <= set(planned[plan.name].candidates)
        state = OPTIMISER.tell(state, params, plan, outcomes)


def test_skipped_mutations_use_up_their_turn_as_in_the_loop() -> None:
    refused = frozenset(range(4))
    params = Params(**COMMON)
    expected = [g.state for g in evolve(initial_state(params), params, Formula(refused=refused), Lineage())]
    assert [to_specification(s) for s in run(Formula(refused=refused))] == expected


def test_a_run_resumed_from_the_specified_file_ends_as_the_loop_resumed_from_it() -> None:
    params = Params(**COMMON)
    whole = [g.state for g in evolve(initial_state(params), params, Formula(), Lineage())]
    text = state_to_json(whole[2], IDS)
    formula = Formula()
    resumed = run(formula, from_specification(state_from_json(text, params)))
    assert [to_specification(state) for state in resumed] == whole[3:]
    assert formula.plans[0].name == "g3_pop"


def test_the_first_population_of_clones_is_evaluated_once_and_a_clone_of_a_parent_never() -> None:
    formula = Formula()
    run(formula, crossover_probability=0.0, mutation_probability=0.0, generations=4)
    assert [(plan.name, len(plan.candidates)) for plan in formula.plans] == [("g0_pop", 1)]


def test_the_elites_are_the_best_and_come_first() -> None:
    params = ReflectiveParams(**COMMON)
    state = run(Formula())[2]
    population = state.population
    best = sorted((m.score.fitness for m in population if m.score), reverse=True)[:2]
    assert [population[i].score.fitness for i in elites(state, params) if population[i].score] == best  # type: ignore[union-attr]


def test_a_spread_population_keeps_the_start_and_differs_otherwise() -> None:
    state = OPTIMISER.init(ReflectiveParams(**COMMON, spread=1.0))
    assert state.population[0] == Evaluated(START)
    assert len({member.deltas for member in state.population}) == 6
    assert state == OPTIMISER.init(ReflectiveParams(**COMMON, spread=1.0))
    assert OPTIMISER.init(ReflectiveParams(**COMMON)).population == (Evaluated(START),) * 6


def test_equal_children_with_the_same_target_get_proposals_that_differ() -> None:
    changes = {
        "population_size": 20, "elitism_size": 0, "crossover_probability": 0.0, "mutation_probability": 1.0,
        "generations": 1,
    }  # fmt: skip
    alike, varied = Formula(), Formula()
    run(alike, **changes)
    run(varied, **changes, vary_proposals=True)
    questions = [(c.deltas, c.target) for c in varied.plans[1].candidates]
    assert len(set(questions)) == CLUSTERS
    assert {c.variant for c in alike.plans[1].candidates} == {0}
    assert len({(c.deltas, c.target, c.variant) for c in varied.plans[1].candidates}) == 20


def test_a_merge_of_equal_scratchpads_makes_no_call_where_that_is_asked_for() -> None:
    changes = {"crossover_probability": 1.0, "mutation_probability": 0.3}
    every, needed = Formula(), Formula()
    run(every, **changes)
    run(needed, **changes, skip_needless_merges=True)
    assert all(c.merge is not None for plan in every.plans[1:] for c in plan.candidates)
    merges = [c.merge for c in needed.candidates if c.merge is not None]
    assert merges
    assert all(merge.scratchpad_a != merge.scratchpad_b for merge in merges)
    assert not any(c.merge for c in needed.plans[1].candidates)  # all scratchpads are empty in generation 0


def test_pinned_clusters_have_no_turn() -> None:
    formula = Formula()
    states = run(formula, pinned=(0, 4), mutation_probability=1.0, population_size=5, elitism_size=1)
    targets = [c.target for c in formula.candidates if c.target is not None]
    assert targets[:8] == [1, 2, 3, 5, 1, 2, 3, 5]
    assert states[-1].rr_idx == len(targets) % 4


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"population": ()}, "0 individuals"),
        ({"rr_idx": 6}, "rr_idx 6"),
        ({"population": (Evaluated((0.0,)),) * 6}, "one delta for each"),
    ],
)
def test_a_state_that_cannot_be_of_these_parameters_is_refused(change: dict[str, Any], says: str) -> None:
    params = ReflectiveParams(**COMMON)
    values = {"population": (Evaluated(START),) * 6, **change}
    assert says in OPTIMISER.problem(ReflectiveState(**values), params)
