"""From settings to an optimiser with its parameters, and its generations one by one."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from orchestrator.optimisers import OPTIMISERS
from orchestrator.optimisers.base import Best
from orchestrator.output import OutputError, OutputFolder
from orchestrator.runs.evolution_tree import EvolutionTree
from orchestrator.runs.search import FinishedGeneration, load_search, make_search
from orchestrator.runs.vectors import Steered, Vectors
from orchestrator.settings import load_settings
from tasks.models import Score
from tasks.plan import Candidate, Outcome, Plan

ROOT = Path(__file__).parents[3]
SMALL = ["POPULATION_SIZE=4", "NGEN=3"]


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def search_of(*overrides: str) -> Any:
    return make_search(load_settings(ROOT / "configs" / "embedded.config", [*SMALL, *overrides]))


def score(deltas: Sequence[float]) -> Score:
    distance = sum((delta - 1) ** 2 for delta in deltas)
    return Score(1 / (1 + distance), 0.5, 0.5, distance)


def answer(candidate: Candidate) -> Outcome:
    pre, text = score(candidate.deltas), candidate.scratchpad
    seconds = {"answer": 1.0}
    if candidate.rewrite:
        proposed = tuple(delta / 2 + 0.5 for delta in candidate.deltas)
        return Outcome(candidate.index, text, pre, None, "learnt", None, seconds, proposed)
    if candidate.target is None:
        return Outcome(candidate.index, text, pre, None, text, None, seconds)
    changed = [*candidate.deltas]
    changed[candidate.target] = 0.75
    return Outcome(candidate.index, text, pre, 0.75, f"{text}.", score(changed), seconds)


def evaluate(plan: Plan) -> list[Outcome]:
    return [answer(candidate) for candidate in plan.candidates]


def generations_of(search: Any) -> list[FinishedGeneration]:
    return list(search.generations(search.init(), evaluate, lambda generation, best: None))


def test_the_start_and_the_pinned_cluster_of_clusters_by_waste() -> None:
    for optimiser in ("reflective", "cma"):
        search = search_of("CLUSTERS_BY=waste", "CLUSTERS=5", "INITIAL_DELTAS_PATH=zero", f"OPTIMISER={optimiser}")
        assert search.params.cluster_ids == tuple(map(str, range(9)))
        assert search.params.initial_deltas == (0.0,) * 9
        assert search.params.pinned == (8,)


@pytest.mark.parametrize("name", sorted(OPTIMISERS))
def test_every_optimiser_has_a_history_a_tree_and_a_best(name: str) -> None:
    search = search_of(f"OPTIMISER={name}")
    generations, tree = generations_of(search), EvolutionTree(search.params.cluster_ids)
    for finished in generations:
        tree.add(finished.generation)
        assert finished.generation.population
        assert finished.seconds["answer"] >= 1
    assert [finished.generation.number for finished in generations] == [0, 1, 2]
    # The first of the first population is the start, with which views and plots compare
    assert generations[0].generation.population[0].genome.deltas == (0.0,) * 12
    # Each node is there once, each edge joins two of them, and the best is among them
    nodes = [node["id"] for node in tree.nodes]
    assert len(nodes) == len(set(nodes))
    following = {f"g3_pop{i}" for i in range(4)}
    assert all({edge["from"], edge["to"]} <= {*nodes, *following} for edge in tree.edges)
    best = generations[-1].state.best
    assert best is not None
    node = max(tree.nodes, key=lambda one: one["fitness"])
    assert node["fitness"] == best.fitness
    evaluated = {e.node: e for f in generations for e in (*f.generation.population, *f.generation.offspring)}
    assert evaluated[node["id"]].genome.deltas == best.deltas


def test_the_vectors_of_a_lineage_descend_from_one_another() -> None:
    tree = EvolutionTree(tuple(map(str, range(12))))
    for finished in generations_of(search_of("OPTIMISER=lineage")):
        tree.add(finished.generation)
    assert [(e["from"], e["to"], e["kind"]) for e in tree.edges] == [
        ("g0_pop0", "g1_pop0", "parent"),
        ("g1_pop0", "g2_pop0", "parent"),
    ]


def test_a_search_that_lost_its_start_is_refused(tmp_path: Path) -> None:
    # Given a run that starts from the best vector without search, and has evaluated something
    settings = load_settings(ROOT / "configs" / "cma.config", ["INITIAL_DELTAS_PATH=best"])
    output, search = OutputFolder(tmp_path), make_search(settings)
    evaluated = dataclasses.replace(search.init(), generation=1, best=Best(search.params.initial_deltas, "", 0.5))
    output.write("evolution_state.json", search.to_json(evaluated))
    # When what it started from is gone, then it does not go on
    with pytest.raises(OutputError, match=r"vectors\.json is missing"):
        load_search(settings, output)


def test_a_state_before_the_first_evaluation_starts_where_the_vectors_say(tmp_path: Path) -> None:
    settings = load_settings(ROOT / "configs" / "cma.config", ["INITIAL_DELTAS_PATH=best"])
    output, zeros = OutputFolder(tmp_path), make_search(settings)
    output.write("evolution_state.json", zeros.to_json(zeros.init()))
    start = tuple(float(cluster) for cluster in range(len(zeros.params.cluster_ids)))
    output.write_json("vectors.json", dataclasses.asdict(Vectors({}, Steered("none", start))))
    search, state = load_search(settings, output)
    assert search.params.initial_deltas == start
    assert state == make_search(settings, start).init() != zeros.init()
