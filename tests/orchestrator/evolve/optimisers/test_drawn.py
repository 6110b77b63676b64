"""Draws that the bound makes equal: sent once in a whole search, counted as often as they are drawn."""

from __future__ import annotations

from typing import Any

import pytest
from formula import CLUSTERS, IDS, START, Formula, score

from orchestrator.evolve.optimisers import make_optimiser
from orchestrator.evolve.optimisers.base import search

ENDS = ((-0.5, *START[1:]), (0.5, *START[1:]))
PLAIN = ["cma", "random"]


def made(name: str) -> tuple[Any, Any]:
    """A search of one free cluster whose draws reach far beyond the bound, so that most are one of its two ends."""
    optimiser = make_optimiser(name)
    return optimiser, optimiser.params_type(
        seed=7, cluster_ids=IDS, initial_deltas=START, generations=6, population_size=8,
        pinned=tuple(range(1, CLUSTERS)), bound=0.5, sigma=5.0,
    )  # fmt: skip


def sent_to(formula: Formula) -> list[tuple[float, ...]]:
    return [candidate.deltas for candidate in formula.candidates if candidate.target is None]


@pytest.mark.parametrize("name", PLAIN)
def test_equal_draws_of_all_generations_are_sent_once_and_count_as_many(name: str) -> None:
    (optimiser, params), formula = made(name), Formula()
    turns = list(search(optimiser, optimiser.init(params), params, formula))
    # Then each end was sent once, and each generation has as many outcomes as it has drawn
    sent = sent_to(formula)
    assert len(sent) == len(set(sent))
    assert all(len(turn.outcomes) >= params.population_size for turn in turns)
    assert any(outcome.evaluations.cached for turn in turns[1:] for outcome in turn.outcomes)
    assert {corner.deltas: corner.score for corner in turns[-1].state.corners} == {end: score(end) for end in ENDS}


@pytest.mark.parametrize("name", PLAIN)
def test_a_search_that_goes_on_from_its_file_sends_none_again(name: str) -> None:
    (optimiser, params), calm = made(name), Formula()
    turns = list(search(optimiser, optimiser.init(params), params, calm))
    for number, turn in enumerate(turns[:-1], start=1):
        state, formula = optimiser.from_json(optimiser.to_json(turn.state, params), params), Formula()
        assert [one.state for one in search(optimiser, state, params, formula)] == [one.state for one in turns[number:]]
        assert sent_to(formula) == sent_to(calm)[len(sent_to(calm)) - len(sent_to(formula)) :]
