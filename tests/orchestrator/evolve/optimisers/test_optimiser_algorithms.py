"""What each optimiser does that the others do not."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from deap import cma as deap_cma
from formula import CLUSTERS, IDS, OPTIMUM, START, Formula, score, search

from orchestrator.evolve.optimisers import SearchParams
from orchestrator.evolve.optimisers.cma import Cma, injected, update
from orchestrator.evolve.optimisers.lineage import SingleLineage
from orchestrator.evolve.optimisers.random_search import RandomSearch
from tasks.records import Score

COMMON: dict[str, Any] = {
    "seed": 7, "cluster_ids": IDS, "initial_deltas": START, "generations": 30, "population_size": 12,
    "sigma": 0.8,
}  # fmt: skip


def final(optimiser: Any, params: Any, formula: Formula | None = None) -> Any:
    return list(search(optimiser, params, formula or Formula()))[-1].state


def test_cma_finds_the_optimum_that_random_search_misses_on_the_same_budget() -> None:
    found = final(Cma(), SearchParams(**COMMON)).best
    by_chance = final(RandomSearch(), SearchParams(**COMMON)).best
    assert found.deltas == pytest.approx(OPTIMUM, abs=0.15)
    assert found.fitness > 0.95 > by_chance.fitness


def test_cma_updates_as_deap_does() -> None:
    params = SearchParams(**COMMON)
    state = Cma().init(params)
    rng = np.random.default_rng(1)
    vectors = [tuple(float(x) for x in rng.normal(size=CLUSTERS)) for _ in range(12)]
    moved = update(state, params, [(v, score(v)) for v in vectors])
    strategy = deap_cma.Strategy([0.0] * CLUSTERS, 0.8, lambda_=12)
    best = sorted(vectors, key=lambda v: -score(v).fitness)[: strategy.mu]
    assert moved.centroid == pytest.approx(np.dot(strategy.weights, best))
    assert (moved.updates, moved.sigma != state.sigma) == (1, True)


def test_a_degenerate_distribution_starts_again_where_it_is() -> None:
    params = SearchParams(**COMMON)
    flat = tuple(tuple(1.0 if i == j == 0 else 1e-20 * (i == j) for j in range(CLUSTERS)) for i in range(CLUSTERS))
    state = dataclasses.replace(Cma().init(params), centroid=OPTIMUM, covariance=flat)
    results = [(tuple(OPTIMUM), Score(0.5, 0, 0, 1.0))] * 12
    after = update(state, params, results)
    assert (after.centroid, after.sigma, after.updates) == (OPTIMUM, params.sigma, 0)
    assert after.covariance[1][1] == 1.0


def test_a_far_vector_of_the_first_population_moves_the_mean_no_further_than_a_sample_could() -> None:
    params = SearchParams(**COMMON)
    state = Cma().init(params)
    near = (0.1, *START[1:])
    assert injected(state, params, near) == pytest.approx(near)
    far = injected(state, params, (100.0, *START[1:]))
    longest = CLUSTERS**0.5 + 2 * CLUSTERS / (CLUSTERS + 2)
    assert far == pytest.approx((0.8 * longest, *START[1:]))


def test_the_lineage_sends_each_vector_once_and_gathers_its_summary() -> None:
    formula = Formula()
    params = SearchParams(**{**COMMON, "generations": 5, "population_size": 1})
    state = final(SingleLineage(), params, formula)
    assert [c.rewrite for c in formula.candidates] == [True, True, True, True, False]
    assert [c.scratchpad.count("learnt") for c in formula.candidates] == [0, 1, 2, 3, 4]
    expected = tuple(best * (1 - 0.5**4) for best in OPTIMUM)
    assert state.best.deltas == pytest.approx(expected)
    assert state.best.scratchpad == state.summary


def test_an_unusable_rewrite_is_asked_again_in_other_words() -> None:
    formula = Formula(refused=frozenset({0}))
    params = SearchParams(**{**COMMON, "generations": 4, "population_size": 1})
    state = final(SingleLineage(), params, formula)
    assert [c.variant for c in formula.candidates] == [0, 1, 2, 3]
    assert (state.deltas, state.summary) == (START, "")
