"""Where the nodes of a tree stand, and which way leads to the best."""

from __future__ import annotations

from tasks.cpu.plots.style import best_so_far
from tasks.cpu.plots.tree_layout import index_of, lay_out


def node(name: str, stage: str, fitness: float | None, generation: int = 0, **more) -> dict:
    return {"id": name, "generation": generation, "stage": stage, "fitness": fitness, "elite": False, **more}


def edge(source: str, to: str, kind: str) -> dict:
    return {"from": source, "to": to, "kind": kind}


TREE = {
    "nodes": [
        node("g0_pop0", "pop", 0.5),
        node("g0_pop1", "pop", 0.7, elite=True),
        node("g0_child0_pre", "pre", 0.6),
        node("g0_child0_mut", "mut", 0.9, target="3"),
        node("g1_pop0", "pop", 0.7, generation=1),
        node("g1_pop1", "pop", 0.9, generation=1),
    ],
    "edges": [
        edge("g0_pop0", "g0_child0_pre", "parent"),
        edge("g0_pop1", "g0_child0_pre", "parent"),
        edge("g0_child0_pre", "g0_child0_mut", "mutation"),
        edge("g0_child0_mut", "g1_pop1", "next"),
        edge("g0_pop1", "g1_pop0", "next"),
    ],
}


def test_time_runs_to_the_right() -> None:
    nodes = lay_out(TREE).nodes
    assert nodes["g0_pop0"].x < nodes["g0_child0_pre"].x < nodes["g0_child0_mut"].x < nodes["g1_pop0"].x


def test_a_child_stands_in_the_row_of_its_place_in_the_next_population() -> None:
    nodes = lay_out(TREE).nodes
    assert nodes["g0_child0_pre"].row == nodes["g0_child0_mut"].row == nodes["g1_pop1"].row == 1


def test_before_the_next_population_is_known_the_rows_are_those_it_will_have() -> None:
    unfinished = {"nodes": TREE["nodes"][:4], "edges": TREE["edges"][:3]}
    assert lay_out(unfinished).nodes["g0_child0_mut"].row == 1


def test_no_two_nodes_stand_in_one_place() -> None:
    nodes = lay_out(TREE).nodes.values()
    assert len({(one.x, one.row) for one in nodes}) == len(TREE["nodes"])


def test_the_best_is_where_it_first_appeared_and_its_way_goes_through_the_fitter_parent() -> None:
    layout = lay_out(TREE)
    assert layout.best == "g0_child0_mut"
    assert layout.path == ("g0_pop1", "g0_child0_pre", "g0_child0_mut")


def test_a_resumed_tree_that_begins_later_starts_at_the_left() -> None:
    later = [one | {"generation": one["generation"] + 5} for one in TREE["nodes"]]
    assert lay_out({"nodes": later, "edges": []}).nodes["g0_pop0"].x == 0


def test_edges_to_nowhere_and_edges_in_circles_do_no_harm() -> None:
    broken = [*TREE["edges"], edge("g0_pop0", "g7_pop0", "next"), edge("g1_pop1", "g0_pop1", "parent")]
    layout = lay_out({"nodes": TREE["nodes"], "edges": broken})
    assert layout.path[0] == "g0_pop1"
    assert all(one.to in layout.nodes for one in layout.edges)


def test_names_are_read_as_the_specification_writes_them() -> None:
    assert [index_of(name) for name in ("g3_pop12", "g0_child4_pre", "g10_child7_mut", "other")] == [12, 4, 7, 0]


def test_the_best_so_far_moves_only_forward_and_keeps_the_earlier_of_equals() -> None:
    def one(fitness: float | None, tokens: float) -> dict:
        return {"fitness": fitness, "mean_tokens": tokens, "correctness": 1.0}

    history = [
        {"generation": 0, "population": [one(0.5, 10), one(None, 1)], "offspring": [one(0.5, 99), one(0.4, 1)]},
        {"generation": 1, "population": [one(0.3, 2)], "offspring": [one(0.8, 3)]},
    ]
    line = best_so_far(history)
    assert [(at.when, at.fitness, at.mean_tokens) for at in line] == [
        (0.0, 0.5, 10), (0.5, 0.5, 10), (1.0, 0.5, 10), (1.5, 0.8, 3),
    ]  # fmt: skip
