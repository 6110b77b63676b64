"""What holds for every optimiser: the same seed gives the same search, and the best never falls; and what each adds."""

from __future__ import annotations

import dataclasses
import itertools
import json
import random
from typing import Any

import numpy as np
import pytest
from formula import IDS, OPTIMUM, START, Formula, score, search

from orchestrator.evolve.optimisers import OPTIMISERS, Optimiser, SearchState, make_optimiser
from orchestrator.settings.inputs import Genome

NAMES = sorted(OPTIMISERS)
VALUES = {  # each optimiser takes those that its parameters have
    "seed": 7, "cluster_ids": IDS, "initial_deltas": START, "generations": 6, "population_size": 8, "sigma": 1.0,
    "crossover_probability": 0.5, "mutation_probability": 0.7, "elitism_size": 2, "selection": "tournament",
    "tournament_size": 3, "top_k": 3,
}  # fmt: skip


def made(name: str, **changes: Any) -> tuple[Optimiser[Any, Any], Any]:
    optimiser, values = make_optimiser(name), {**VALUES, **changes}
    fields = {one.name for one in dataclasses.fields(optimiser.params_type)}
    return optimiser, optimiser.params_type(**{key: value for key, value in values.items() if key in fields})


def states(optimiser: Any, params: Any, formula: Formula) -> list[SearchState]:
    return [turn.state for turn in search(optimiser, params, formula)]


@pytest.mark.parametrize("name", NAMES)
def test_the_best_is_never_worse_than_the_start_and_never_falls(name: str) -> None:
    optimiser, params = made(name, generations=12)
    bests = [state.best.fitness for state in states(optimiser, params, Formula()) if state.best]
    assert bests == sorted(bests)
    assert bests[0] >= score(START).fitness
    assert bests[-1] > 1.5 * score(START).fitness


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_gives_the_same_states_in_whatever_order_outcomes_arrive(name: str) -> None:
    optimiser, params = made(name)
    calm = states(optimiser, params, Formula())
    assert calm == states(optimiser, params, Formula(shuffle=random.Random(1)))
    if name != "lineage":  # nothing in it is drawn
        assert calm != states(*made(name, seed=8), Formula())
    # Asking twice gives the same plan and leaves the generators of the modules alone
    before = random.getstate(), str(np.random.get_state())
    plan = optimiser.ask(calm[2], params)
    assert plan == optimiser.ask(calm[2], params)
    optimiser.tell(calm[2], params, plan, Formula()(plan))
    assert (random.getstate(), str(np.random.get_state())) == before


@pytest.mark.parametrize("name", NAMES)
def test_a_pinned_cluster_never_moves_and_the_others_stay_within_the_bound(name: str) -> None:
    start = (0.0, 0.0, 0.0, 0.25, 0.0, 0.0)
    formula = Formula()
    optimiser, params = made(name, pinned=(3, 5), initial_deltas=start, bound=1.0, sigma=3.0)
    final = states(optimiser, params, formula)[-1]
    assert all(c.deltas[3] == 0.25 and c.deltas[5] == 0.0 for c in formula.candidates)
    assert all(c.target not in (3, 5) for c in formula.candidates)
    assert final.best is not None
    assert (final.best.deltas[3], final.best.deltas[5]) == (0.25, 0.0)
    drawn = [c.deltas for c in formula.candidates if name != "reflective"]
    assert all(abs(delta) <= 1.0 for deltas in drawn for delta in deltas)


DAMAGE: list[Any] = [
    lambda v: v.update(optimiser="other"),
    lambda v: v.update(clusters=["0", "1"]),
    lambda v: v["state"].update(generation="soon"),
    lambda v: v["state"]["best"].update(deltas=[0.0] * 5 + [1000.5]),
]
OF_THE_SPECIFICATION: list[Any] = [
    lambda v: v.update(generation="soon"),
    lambda v: v.update(rr_idx=6),
    lambda v: v["best_individual"].update(deltas={"0": 1}),
    lambda v: v["best_individual"]["deltas"].update({"0": -1000.5}),
    lambda v: v["best_individual"].update(scratchpad="x" * 10_000_000),
]


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        *itertools.product(["reflective"], OF_THE_SPECIFICATION),
        *itertools.product([name for name in NAMES if name != "reflective"], DAMAGE),
    ],
)
def test_a_state_of_another_search_is_refused(name: str, damage: Any) -> None:
    optimiser, params = made(name)
    values = json.loads(optimiser.to_json(states(optimiser, params, Formula())[1], params))
    damage(values)
    with pytest.raises(ValueError):
        optimiser.from_json(json.dumps(values), params)


POPULATION = tuple(Genome((0.5 * i, 1.0, *START[2:]), f"learnt {i}") for i in range(3))


@pytest.mark.parametrize("name", [name for name in NAMES if name != "lineage"])
def test_the_first_generation_evaluates_the_whole_population_that_the_search_starts_from(name: str) -> None:
    formula = Formula()
    start = {"initial_deltas": POPULATION[0].deltas, "initial_scratchpad": "learnt 0", "further": POPULATION[1:]}
    optimiser, params = made(name, generations=1, pinned=(4,), **start)
    [*_, last] = states(optimiser, params, formula)
    evaluated = {(c.deltas, c.scratchpad) for c in formula.candidates}
    assert {(one.deltas, one.scratchpad) for one in POPULATION} <= evaluated
    assert len({c.deltas for c in formula.plans[0].candidates}) <= params.population_size
    assert last.best is not None and last.best.fitness >= max(score(one.deltas).fitness for one in POPULATION)


def test_cma_finds_the_optimum_that_random_search_misses_on_the_same_budget() -> None:
    budget = {"generations": 30, "population_size": 12, "sigma": 0.8}
    found, by_chance = (states(*made(name, **budget), Formula())[-1].best for name in ("cma", "random"))
    assert found is not None and by_chance is not None
    assert found.deltas == pytest.approx(OPTIMUM, abs=0.15)
    assert found.fitness > 0.95 > by_chance.fitness


def test_the_lineage_sends_each_vector_once_and_gathers_its_summary() -> None:
    formula = Formula()
    state: Any = states(*made("lineage", generations=5, population_size=1), formula)[-1]
    assert [c.rewrite for c in formula.candidates] == [True, True, True, True, False]
    assert [c.scratchpad.count("learnt") for c in formula.candidates] == [0, 1, 2, 3, 4]
    expected = tuple(best * (1 - 0.5**4) for best in OPTIMUM)
    assert state.best.deltas == pytest.approx(expected)
    assert state.best.scratchpad == state.summary
    # An unusable rewrite is asked again in other words
    formula = Formula(refused=frozenset({0}))
    state = states(*made("lineage", generations=4, population_size=1), formula)[-1]
    assert [c.variant for c in formula.candidates] == [0, 1, 2, 3]
    assert (state.deltas, state.summary) == (START, "")
