"""The evolution tree of a run, `evolution_tree.json`: nodes are evaluations, edges their descent.

Node ids name generation, position and stage: g{g}_pop{i}, g{g}_child{j}_pre, g{g}_child{j}_mut.  Edges are "parent",
"mutation" and "next", from a surviving individual to its position in the next population.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from typing_extensions import TypedDict

from orchestrator.evolve.optimisers.base import Evaluated, Generation
from tasks.plan import plan_name


class NodeFile(TypedDict):
    id: str
    generation: int
    stage: str
    fitness: float | None


EdgeFile = TypedDict("EdgeFile", {"from": str, "to": str})


class TreeFile(TypedDict):
    """evolution_tree.json: what is read of it again."""

    nodes: list[NodeFile]
    edges: list[EdgeFile]


class EvolutionTree:
    """Nodes and edges as plain dicts, ready for JSON, extended by each generation."""

    def __init__(
        self,
        cluster_ids: Sequence[str],
        nodes: Sequence[dict[str, Any]] = (),
        edges: Sequence[dict[str, str]] = (),
    ) -> None:
        self.cluster_ids = tuple(cluster_ids)
        self.nodes = list(nodes)
        self.edges = list(edges)

    def restore(self, data: Mapping[str, Any], generation: int) -> None:
        """Take over a saved tree without the nodes and edges of `generation` and later ones.

        The edges to its survivors ("next") are those of an earlier generation; edges from parents are its own.
        """
        self.nodes = [n for n in data["nodes"] if n["generation"] < generation]
        kept = {n["id"] for n in self.nodes}
        self.edges = [e for e in data["edges"] if e["from"] in kept and (e["to"] in kept or e["kind"] == "next")]

    def data(self) -> dict[str, Any]:
        return {"nodes": self.nodes, "edges": self.edges}

    def add(self, generation: Generation, before: int | None = None, *, is_alone: bool = True) -> None:
        """Add a generation of an arm; `before` is the number of the one that the arm had before it.

        The next generation of an arm that is not alone is known only when it comes; until then the edges of its
        survivors lead to no node.
        """
        survivors = plan_name("population", generation.number)
        for edge in self.edges:
            if edge["kind"] == "next" and before is not None and edge["from"].startswith(f"g{before}_"):
                edge["to"] = re.sub(r".*[^0-9]", survivors, edge["to"])
        for evaluated in (*generation.population, *generation.offspring):
            self._node(generation.number, evaluated)
            for parent in evaluated.parents:
                self._edge(parent, evaluated.node, "parent" if evaluated.target is None else "mutation")
        following = plan_name("population", generation.number + 1) if is_alone else f"g{generation.number}_survivor"
        for index, node in enumerate(generation.survivors):
            self._edge(node, f"{following}{index}", "next")

    def _node(self, generation: int, evaluated: Evaluated) -> None:
        score, target = evaluated.score, evaluated.target
        self.nodes.append(
            {
                "id": evaluated.node,
                "generation": generation,
                "stage": stage_of(evaluated.node),
                "fitness": score.fitness,
                "mean_tokens": score.mean_tokens,
                "correctness": score.correctness,
                "elite": evaluated.is_elite,
                "target": None if target is None else self.cluster_ids[target],
            }
        )

    def _edge(self, start: str, end: str, kind: str) -> None:
        self.edges.append({"from": start, "to": end, "kind": kind})


def stage_of(node: str) -> str:
    """The stage in a node's id: "pre" or "mut" of a child, or "pop"."""
    _, separator, phase = node.rpartition("_child")
    return phase.partition("_")[2] if separator else "pop"
