"""The lineage of all individuals of a run: nodes are evaluations, edges their descent.

Node ids name generation, position and stage: g{g}_pop{i}, g{g}_child{j}_pre, g{g}_child{j}_mut.  Edges are "parent",
"mutation" and "next", from a surviving individual to its position in the next population.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typing_extensions import TypedDict

from orchestrator.evolution.individual import Individual
from tasks.models import Score
from tasks.plan import Outcome, Plan


class Node(TypedDict):
    id: str
    generation: int
    stage: str
    fitness: float | None


Edge = TypedDict("Edge", {"from": str, "to": str})


class LineageFile(TypedDict):
    """evolution_tree.json: what is read of it again."""

    nodes: list[Node]
    edges: list[Edge]


class Lineage:
    """Nodes and edges as plain dicts, ready for JSON, extended by each generation."""

    def __init__(self, nodes: Sequence[dict[str, Any]] = (), edges: Sequence[dict[str, str]] = ()) -> None:
        self.nodes = list(nodes)
        self.edges = list(edges)

    @classmethod
    def before(cls, data: dict[str, Any], generation: int) -> Lineage:
        """The saved lineage without the nodes and edges of `generation` and later ones."""
        nodes = [n for n in data["nodes"] if n["generation"] < generation]
        kept = {n["id"] for n in nodes} | {f"g{generation}_pop{i}" for i in range(len(data["nodes"]))}
        return cls(nodes, [e for e in data["edges"] if e["from"] in kept and e["to"] in kept])

    def data(self) -> dict[str, Any]:
        return {"nodes": self.nodes, "edges": self.edges}

    def add_population(self, generation: int, population: Sequence[Individual], elites: Sequence[Individual]) -> None:
        elite = {id(e) for e in elites}
        for index, individual in enumerate(population):
            node = f"g{generation}_pop{index}"
            self._node(node, generation, "pop", individual.score, elite=id(individual) in elite)

    def add_child(self, plan: Plan, outcome: Outcome, target: str | None) -> str:
        """Add a child's nodes and edges; returns the id of its final node."""
        candidate = plan.candidate(outcome.index)
        final = pre = plan.node(candidate.index, "pre")
        self._node(pre, plan.generation, "pre", outcome.pre)
        for parent in candidate.parents:
            self._edge(f"g{plan.generation}_pop{parent}", pre, "parent")
        if outcome.mut is not None:
            final = plan.node(candidate.index, "mut")
            self._node(final, plan.generation, "mut", outcome.mut, target=target)
            self._edge(pre, final, "mutation")
        return final

    def add_survivors(self, generation: int, survivors: Sequence[str]) -> None:
        """Connect the nodes of the surviving individuals to their positions in the next population."""
        for index, node in enumerate(survivors):
            self._edge(node, f"g{generation + 1}_pop{index}", "next")

    def _node(
        self, node: str, generation: int, stage: str, score: Score, *, elite: bool = False, target: str | None = None
    ) -> None:
        self.nodes.append(
            {
                "id": node,
                "generation": generation,
                "stage": stage,
                "fitness": score.fitness,
                "mean_tokens": score.mean_tokens,
                "correctness": score.correctness,
                "elite": elite,
                "target": target,
            }
        )

    def _edge(self, start: str, end: str, kind: str) -> None:
        self.edges.append({"from": start, "to": end, "kind": kind})
