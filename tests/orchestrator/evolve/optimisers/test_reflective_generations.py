"""The generations of the reflective search: progress, seeds, resuming, and the tree of its evaluations."""

from __future__ import annotations

import json

import pytest
from reflective_run import Formula, params, run

from orchestrator.evolve.optimisers.reflective import Reflective
from orchestrator.evolve.records import Tree, tree_before


@pytest.mark.parametrize("stopped_after", [1, 2, 4])
def test_a_resumed_run_ends_where_the_undisturbed_one_does(stopped_after: int) -> None:
    parameters = params()
    whole = run(parameters, Formula())
    saved = Reflective().to_json(whole[stopped_after - 1].state, parameters)
    resumed = run(parameters, Formula(), start=Reflective().from_json(saved, parameters))
    assert [g.state for g in resumed] == [g.state for g in whole[stopped_after:]]


def test_the_tree_names_nodes_and_edges_as_the_specification_does() -> None:
    tree: Tree = {"nodes": [], "edges": []}
    run(params(generations=2, mutation_probability=1.0), Formula(), tree)
    ids = {node["id"] for node in tree["nodes"]}
    assert {"g0_pop0", "g0_child3_pre", "g0_child3_mut", "g1_pop5"} <= ids
    assert len(ids) == len(tree["nodes"]) == 2 * (6 + 4 + 4)
    kinds = {(e["from"], e["to"]): e["kind"] for e in tree["edges"]}
    assert kinds["g0_child3_pre", "g0_child3_mut"] == "mutation"
    assert kinds["g0_child3_mut", "g1_pop5"] == "next"
    assert sum(node["elite"] for node in tree["nodes"]) == 4
    kept = tree_before(json.loads(json.dumps(tree)), 1)
    assert {n["generation"] for n in kept["nodes"]} == {0}
    assert {e["kind"] for e in kept["edges"]} == {"parent", "mutation", "next"}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"generation": "soon"}, "generation"),
        ({"best_individual": {"deltas": {"0": 1}, "scratchpad": ""}}, "clusters"),
        ({"best_individual": {"deltas": {"0": -1001}, "scratchpad": ""}}, "is not greater than or equal to -1000"),
        ({"best_individual": {"deltas": {"0": 1}, "scratchpad": "x" * 10_000_000}}, "4000 characters"),
    ],
)
def test_a_state_of_another_run_is_refused(change: dict[str, object], says: str) -> None:
    parameters = params()
    saved = json.loads(Reflective().to_json(Reflective().init(parameters), parameters))
    with pytest.raises(ValueError, match=says):
        Reflective().from_json(json.dumps({**saved, **change}), parameters)
