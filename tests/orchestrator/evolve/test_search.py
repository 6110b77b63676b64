"""The search of a run: its arms take turns, and its state in JSON is exact."""

from __future__ import annotations

import dataclasses
import json
import random
from pathlib import Path
from typing import Any

import pytest
from formula import CLUSTERS, Formula
from simulated_measurer import evolve_settings

from orchestrator.evolve.optimisers import OPTIMISERS
from orchestrator.evolve.search import (
    FinishedGeneration,
    Known,
    RunState,
    Search,
    Turn,
    load_state,
    make_search,
    next_arm,
)
from orchestrator.evolve.systems import Arm, Book, System
from orchestrator.report.statistics import Measurement, Point
from orchestrator.runs.folder import OutputFolder
from orchestrator.settings.options import Settings
from orchestrator.settings.run import by_rules

ARMS = (Arm("plain", "", "clusters a"), Arm("80 words", "In 80 words.", "clusters b"), Arm("brief", "Be brief.", "c"))
KNOWN = Known([Point(80, 0.5)], 120)


def settings(**options: object) -> Settings:
    """By meaning there are two clusters more than CLUSTERS."""
    return evolve_settings(clusters=CLUSTERS - 2, clusters_by="meaning", seed=7, **options)


def vector(arm: Arm, delta: float, tokens: int, correct: int) -> System:
    right = tuple(n < correct for n in range(10))
    answers = Measurement(tuple("0123456789"), (tokens,) * 10, right, (True,) * 10, (False,) * 10)
    deltas = (delta,) * CLUSTERS
    return System(f"{delta}", "vector", arm.system_prompt, arm.name, deltas, arm.clustering, training=answers)


VECTORS = (vector(ARMS[0], 1.0, 30, 5), vector(ARMS[0], 2.0, 20, 5), vector(ARMS[0], 3.0, 10, 6))
BOOK = Book(arms=ARMS[:2], systems=(*VECTORS, vector(ARMS[1], 4.0, 10, 6)))


def run(search: Search, state: RunState, formula: Any, turns: list[Turn] | None = None) -> list[FinishedGeneration]:
    """The generations that remain, by a formula in place of the farm; `turns` are those before them."""
    recorded, found = turns if turns is not None else [], []
    for finished in search.generations(state, formula, lambda generation, best: None, lambda: recorded, KNOWN):
        done = finished.generation
        scores = [one.score for one in (*done.population, *done.offspring)]
        recorded.append(Turn(finished.arm.name, [Point(one.mean_tokens, one.correctness) for one in scores]))
        found.append(finished)
    return found


def turn(arm: int, *points: tuple[float, float]) -> Turn:
    return Turn(ARMS[arm].name, [Point(*point) for point in points])


@pytest.mark.parametrize(
    ("turns", "arm"),
    [
        ([], 0),
        ([turn(0, (10, 0.9))], 1),
        ([turn(0, (10, 0.9)), turn(1)], 2),
        # Then the one that has added most,
        ([turn(0, (70, 0.5)), turn(1, (40, 0.5)), turn(2, (39, 0.5))], 1),
        # by its last turn,
        ([turn(0, (70, 0.5)), turn(1, (40, 0.5)), turn(2, (39, 0.5)), turn(1, (60, 0.1))], 0),
        # beyond what was known: the same points of a later turn add nothing, nor do those that are too long
        ([turn(0, (40, 0.6)), turn(1, (40, 0.6)), turn(2, (121, 0.9))], 0),
        # Of equal ones the one with the fewest turns, and of these the first
        ([turn(0), turn(1), turn(2)], 0),
        ([turn(0), turn(1), turn(2), turn(0)], 1),
    ],
)
def test_each_arm_has_a_turn_and_then_the_one_that_added_most_to_the_front(turns: list[Turn], arm: int) -> None:
    assert next_arm(ARMS, turns, KNOWN) == ARMS[arm]


def test_the_candidates_of_a_generation_have_the_prompt_and_the_clusters_of_its_arm() -> None:
    formula = Formula()
    generations = run(make_search(settings(ngen=4), BOOK), RunState(), formula)
    assert [one.generation.number for one in generations] == [0, 1, 2, 3]
    assert [one.arm.name for one in generations[:2]] == ["plain", "80 words"]
    for one in generations:
        plans = [plan for plan in formula.plans if plan.generation == one.generation.number]
        stamps = {(c.system_prompt, c.clustering) for plan in plans for c in plan.candidates}
        assert stamps == {(one.arm.system_prompt, one.arm.clustering)}
    # The best of the run is that of all arms
    end = generations[-1].state
    best = make_search(settings(ngen=4), BOOK).best(end)
    assert best is not None and best.best.fitness == max(one.best.fitness for one in end.states.values() if one.best)


def test_an_arm_begins_with_its_own_vectors_the_most_correct_and_then_the_shortest_first() -> None:
    zeros = (0.0,) * CLUSTERS  # of the settings
    search = make_search(settings(population_size=3), BOOK)
    assert [one.deltas for one in search.params["plain"].start] == [zeros, (3.0,) * CLUSTERS, (2.0,) * CLUSTERS]
    assert [one.deltas for one in search.params["80 words"].start] == [zeros, (4.0,) * CLUSTERS]


@pytest.mark.parametrize("optimiser", OPTIMISERS)
@pytest.mark.parametrize("arms", [1, 2])
def test_the_state_in_its_file_is_exact_and_the_run_ends_where_the_undisturbed_one_does(
    optimiser: str, arms: int, tmp_path: Path
) -> None:
    output = OutputFolder(tmp_path)
    search = make_search(settings(ngen=6, optimiser=optimiser), dataclasses.replace(BOOK, arms=ARMS[:arms]))
    turns: list[Turn] = []
    texts = [search.to_json(one.state) for one in run(search, RunState(), Formula(), turns)]
    assert load_state(output, search) == search.from_json(search.to_json(RunState())) == RunState()
    for stopped in (0, 1, 3):
        output.write("evolution_state.json", texts[stopped])
        state = load_state(output, search)
        assert search.to_json(state) == texts[stopped] and state.generation == stopped + 1
        resumed = run(search, state, Formula(random.Random(1)), turns[: stopped + 1])
        assert [search.to_json(one.state) for one in resumed] == texts[stopped + 1 :]


def test_the_file_has_the_five_keys_of_the_specification_and_with_several_arms_their_names() -> None:
    # `make evolve` runs the specification's search, with the rules in place of a reflector
    assert evolve_settings().optimiser == "reflective" and by_rules(evolve_settings())
    keys = ["generation", "population", "best_individual", "best_fitness", "rr_idx"]
    one, two = (make_search(settings(ngen=3), dataclasses.replace(BOOK, arms=ARMS[:count])) for count in (1, 2))
    for search, more in ((one, []), (two, ["arm", "others"])):
        for state in (RunState(), run(search, RunState(), Formula())[-1].state):
            assert list(json.loads(search.to_json(state))) == [*keys, *more]
    values = json.loads(two.to_json(run(two, RunState(), Formula())[1].state))
    assert (values["arm"], values["generation"], list(values["others"])) == ("80 words", 2, ["plain"])
    assert list(values["others"]["plain"]) == keys
