"""What an evolution has recorded, as readers see it: its generations, its individuals, and who descends from whom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import FiniteFloat
from typing_extensions import TypedDict

from orchestrator.evolve.evolution_tree import stage_of
from orchestrator.evolve.individuals import IndividualRecord
from tasks.plan import Evaluations


@dataclass(frozen=True)
class GenerationResult:
    """One recorded generation.  `population` and `offspring` are names of individuals.

    `best` and `mean` are fitnesses of the population, `best_ever` that of the run so far.  `seconds` has the time by
    stage, summed over tasks that ran side by side, and as "wall" that of the whole generation.  `cost_usd` is None
    where the prices are not known.  `answered` has who answered until then, by role ("reflector", "judge").
    """

    generation: int
    arm: str
    best: float
    mean: float
    best_ever: float
    population: tuple[str, ...]
    offspring: tuple[str, ...]
    evaluations: Evaluations
    seconds: Mapping[str, float]
    tokens: Mapping[str, float]
    calls: int
    cost_usd: float | None
    answered: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    settings_changed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class IndividualResult:
    """One evaluation.  `name` is its node in the tree, for example "g3_child1_mut".

    stage: "pop" for a member of the population, "pre" and "mut" for a child before and after its mutation; target: the
    cluster that the mutation changed; correctness: the share of correct answers on the training set; arm: the name of
    its system prompt, deltas: by cluster, both empty where individuals.jsonl has been lost; skip_reason and
    merge_fallback: why no reply of the reflector was usable.
    """

    name: str
    generation: int
    stage: str
    arm: str
    fitness: float
    mean_tokens: float
    correctness: float
    is_elite: bool = False
    target: str | None = None
    deltas: Mapping[str, float] = field(default_factory=dict)
    scratchpad: str = ""
    skip_reason: str = ""
    merge_fallback: str = ""


class LineageNode(TypedDict):
    """A node of evolution_tree.json."""

    id: str
    generation: int
    fitness: FiniteFloat
    mean_tokens: FiniteFloat
    correctness: FiniteFloat
    elite: bool
    target: str | None


@dataclass(frozen=True)
class Descent:
    """An edge of the tree.  kind: "parent", "mutation", or "next" to a survivor's place in the next population."""

    start: str
    end: str
    kind: Literal["parent", "mutation", "next"]


DescentFile = TypedDict("DescentFile", {"from": str, "to": str, "kind": Literal["parent", "mutation", "next"]})


class LineageFile(TypedDict):
    """evolution_tree.json: all of it that is shown."""

    nodes: list[LineageNode]
    edges: list[DescentFile]


def generation_result(line: Mapping[str, Any]) -> GenerationResult:
    """What a line of history.jsonl says."""
    return GenerationResult(
        generation=line["generation"],
        arm=line["arm"],
        best=line["best"],
        mean=line["mean"],
        best_ever=line["best_ever"],
        population=tuple(one["node"] for one in line["population"]),
        offspring=tuple(one["node"] for one in line["offspring"]),
        evaluations=Evaluations(**line["evaluations"]),
        seconds=line["seconds"],
        tokens=line["tokens"],
        calls=int(line["calls"]),
        cost_usd=line["cost_usd"],
        answered={role: tuple(names) for role, names in line.get("answered", {}).items()},
        settings_changed=line.get("settings_changed", {}),
    )


def individual_result(node: LineageNode, record: IndividualRecord | None) -> IndividualResult:
    """A node of the tree with its line of individuals.jsonl, if there is one."""
    return IndividualResult(
        name=node["id"],
        generation=node["generation"],
        stage=stage_of(node["id"]),
        arm="" if record is None else record["arm"],
        fitness=node["fitness"],
        mean_tokens=node["mean_tokens"],
        correctness=node["correctness"],
        is_elite=node["elite"],
        target=node["target"],
        deltas={} if record is None else record["deltas"],
        scratchpad="" if record is None else record.get("scratchpad", ""),
        skip_reason="" if record is None else record.get("skip_reason", ""),
        merge_fallback="" if record is None else record.get("merge_fallback", ""),
    )
