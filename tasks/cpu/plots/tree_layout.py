"""The positions of the nodes of an evolution tree, and the path to the best of them.  No drawing here.

Time runs to the right in columns: each generation has one for its population, one for the children before mutation
(`_pre`), and one for those after it (`_mut`).  A child is in the row of its position in the next population, so that
only the edges from parents cross.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["parent", "mutation", "next"]
STAGES = ("pop", "pre", "mut")
GAP = 0.35  # of a column, before each population
_NAME = re.compile(r"^g(\d+)_(?:pop|child)(\d+)(?:_(?:pre|mut))?$")


@dataclass(frozen=True)
class Node:
    """A node and its position: `x` in columns from the left, `row` from the top."""

    id: str
    generation: int
    stage: str
    x: float
    row: float
    fitness: float | None
    is_elite: bool
    target: str | None


@dataclass(frozen=True)
class Edge:
    source: str
    to: str
    kind: Kind


@dataclass(frozen=True)
class Layout:
    nodes: dict[str, Node]
    edges: tuple[Edge, ...]
    best: str | None  # the first node that reached the highest fitness
    path: tuple[str, ...]  # from a root to `best`
    columns: float
    rows: float


def lay_out(tree: Mapping[str, Any]) -> Layout:
    """Place the nodes of `evolution_tree.json`; edges whose ends are missing are left out.

    Node names are g{g}_pop{i}, g{g}_child{j}_pre and g{g}_child{j}_mut.
    """
    raw = {str(node["id"]): node for node in tree.get("nodes", ())}
    edges = tuple(
        Edge(str(edge["from"]), str(edge["to"]), edge["kind"])
        for edge in tree.get("edges", ())
        if str(edge["from"]) in raw and str(edge["to"]) in raw
    )
    rows = _rows(raw, edges)
    first = min((int(node["generation"]) for node in raw.values()), default=0)
    nodes = {name: _place(name, node, rows[name], first) for name, node in raw.items()}
    best = _best(nodes)
    return Layout(
        nodes=nodes,
        edges=edges,
        best=best,
        path=_path_to(best, nodes, edges),
        columns=max((node.x for node in nodes.values()), default=0.0) + 1,
        rows=max((node.row for node in nodes.values()), default=0.0) + 1,
    )


def column(generation: int, stage: str) -> float:
    """The x of a stage; generations are counted from the first one drawn."""
    return generation * (len(STAGES) + GAP) + STAGES.index(stage)


def _place(name: str, node: Mapping[str, Any], row: float, first: int) -> Node:
    fitness = node.get("fitness")
    is_number = isinstance(fitness, int | float) and math.isfinite(fitness)
    generation, stage, target = int(node["generation"]), str(node["stage"]), node.get("target")
    return Node(
        id=name,
        generation=generation,
        stage=stage,
        x=column(generation - first, stage),
        row=row,
        fitness=float(fitness) if is_number and fitness is not None else None,
        is_elite=bool(node.get("elite")),
        target=None if target is None else str(target),
    )


def index_of(name: str) -> int:
    """The `i` of `g0_pop<i>`, the `j` of `g0_child<j>_pre`; 0 for a name of another form."""
    match = _NAME.match(name)
    return int(match.group(2)) if match else 0


def _rows(raw: Mapping[str, Mapping[str, Any]], edges: tuple[Edge, ...]) -> dict[str, float]:
    """A population is in its order; a child in the row of its next position, or of the expected one."""
    follows = {edge.source: edge.to for edge in edges if edge.kind in {"mutation", "next"}}
    size = max((index_of(name) + 1 for name, node in raw.items() if node["stage"] == "pop"), default=1)
    children = max((index_of(name) + 1 for name, node in raw.items() if node["stage"] != "pop"), default=0)
    elites = max(size - children, 0)
    rows: dict[str, float] = {}
    for name, node in raw.items():
        rows[name] = float(index_of(name))
        if node["stage"] == "pop":
            continue
        end = name
        while end in follows and raw[end]["stage"] != "pop":
            end = follows[end]
        rows[name] = float(index_of(end) if raw[end]["stage"] == "pop" else elites + index_of(name))
    return rows


def _best(nodes: Mapping[str, Node]) -> str | None:
    """The earliest node of the highest fitness, so not an elite's copy in a later population."""
    rated = [node for node in nodes.values() if node.fitness is not None]
    if not rated:
        return None
    return min(rated, key=lambda node: (-(node.fitness or 0.0), node.x, node.row, node.id)).id


def _path_to(best: str | None, nodes: Mapping[str, Node], edges: tuple[Edge, ...]) -> tuple[str, ...]:
    """From `best` back to a node without ancestors, through the fitter of two parents."""
    into: dict[str, list[str]] = {}
    for edge in edges:
        # Only edges that lead forward: a damaged file could have cycles.
        if nodes[edge.source].x < nodes[edge.to].x:
            into.setdefault(edge.to, []).append(edge.source)
    path: list[str] = []
    node = best
    while node is not None:
        path.append(node)
        node = min(into.get(node, ()), key=lambda name: (-_fitness(nodes[name]), nodes[name].row), default=None)
    return tuple(reversed(path))


def _fitness(node: Node) -> float:
    return -math.inf if node.fitness is None else node.fitness
