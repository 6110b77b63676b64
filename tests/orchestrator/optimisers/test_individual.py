"""The individual of DEAP: the order of its deltas, and the fitness that a change takes from it."""

from __future__ import annotations

from orchestrator.optimisers.individual import canonical_order, invalidate, list_to_deltas, make_individual, set_score
from tasks.models import Score


def test_deltas_are_ordered_by_the_number_of_their_cluster() -> None:
    ids = canonical_order(["10", "2", "0", "1"])
    assert ids == ("0", "1", "2", "10")
    assert list_to_deltas([0.5, 1.0, 1.5, 2.0], ids) == {"0": 0.5, "1": 1.0, "2": 1.5, "10": 2.0}


def test_a_changed_individual_has_no_fitness() -> None:
    individual = make_individual((0.0, 1.5), "a note")
    assert (list(individual), individual.scratchpad, individual.fitness.valid) == ([0.0, 1.5], "a note", False)
    score = Score(fitness=0.5, shortness=0.5, correctness=0.5, mean_tokens=10.0)
    set_score(individual, score)
    assert (individual.fitness.values, individual.score) == ((0.5,), score)
    invalidate(individual)
    assert (individual.fitness.valid, individual.score) == (False, None)
