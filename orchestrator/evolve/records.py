"""What is recorded of a search in the output folder: `history.jsonl`, `individuals.jsonl` and `evolution_tree.json`.

Every generation goes there before the next one starts.  `evolution_state.json` is written last, so whatever else is in
the folder is never older than the state; what a killed generation left beyond it is dropped when the run is resumed.

The nodes of the tree are evaluations: g{g}_pop{i}, g{g}_child{j}_pre, g{g}_child{j}_mut.  Its edges are "parent",
"mutation" and "next", from a surviving individual to its position in the next population.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired, cast, get_args

from pydantic import Field, FiniteFloat
from typing_extensions import TypedDict

from orchestrator.evolve.optimisers import Evaluated, Generation, canonical_order, list_to_deltas
from orchestrator.evolve.resume import options_of, read_changes
from orchestrator.evolve.systems import Arm, System
from orchestrator.report.format import baseline_name
from orchestrator.report.statistics import Point
from orchestrator.runs.folder import OutputFolder, read_state, write_output
from orchestrator.runs.lines import append_lines, json_line, load_lines
from orchestrator.runs.status import TOKEN_COUNTS
from tasks.common.validation import Delta, checked_json
from tasks.openai.endpoint import Role
from tasks.plan import Evaluations, plan_name
from tasks.records import PROCESSOR_FILE

if TYPE_CHECKING:
    from orchestrator.evolve.search import BestOfRun, FinishedGeneration, RunState, Search
    from orchestrator.runs.artifacts import ArtifactRequests
    from tasks.store.store import Store


class ScoredIndividual(TypedDict):
    """An individual in a line of history.jsonl; offspring also have the cluster that their mutation changed."""

    node: str
    target: NotRequired[str | None]
    fitness: FiniteFloat
    shortness: FiniteFloat
    correctness: FiniteFloat
    mean_tokens: FiniteFloat
    skip_reason: NotRequired[str]
    merge_fallback: NotRequired[str]


class GenerationRecord(TypedDict):
    """A line of history.jsonl.

    best, mean: fitnesses of the population; best_ever: of the run so far.  seconds: by stage, summed over tasks that
    ran side by side, and as "wall" of the whole generation.  cost_usd: None where the prices are not known.  answered:
    who answered until then, by role ("reflector", "judge").
    """

    generation: int
    arm: str
    best: FiniteFloat
    mean: FiniteFloat
    best_ever: FiniteFloat
    population: Annotated[list[ScoredIndividual], Field(min_length=1)]
    offspring: list[ScoredIndividual]
    evaluations: dict[str, int]
    seconds: dict[str, FiniteFloat]
    tokens: dict[str, FiniteFloat]
    calls: FiniteFloat
    cost_usd: FiniteFloat | None
    answered: NotRequired[dict[str, list[str]]]
    settings_changed: NotRequired[dict[str, str]]


History = Sequence[GenerationRecord]


def read_history(output: OutputFolder) -> list[GenerationRecord]:
    return cast("list[GenerationRecord]", load_lines(output.history, GenerationRecord, "generation"))


def evaluations_of(history: History) -> Evaluations:
    """The evaluations of all recorded generations."""
    return sum((Evaluations(**line["evaluations"]) for line in history), Evaluations())


@dataclass(frozen=True)
class Individual:
    """A line of individuals.jsonl: one evaluation of the search; `node` is its name.

    arm: the name of the system prompt; target: the cluster that the mutation changed; correctness: the share of correct
    answers on the training set; skip_reason, merge_fallback: why no reply of the reflector was usable, for the mutation
    that should have followed and for the merge before.
    """

    node: str
    generation: int
    arm: str
    fitness: FiniteFloat
    mean_tokens: FiniteFloat
    correctness: FiniteFloat
    deltas: dict[str, Delta]
    target: str | None = None
    scratchpad: str = ""
    merge_fallback: str = ""
    skip_reason: str = ""

    @property
    def vector(self) -> tuple[float, ...]:
        """The deltas in canonical order."""
        return tuple(self.deltas[cluster] for cluster in canonical_order(list(self.deltas)))

    @property
    def point(self) -> Point:
        return Point(self.mean_tokens, self.correctness)

    @property
    def stage(self) -> str:
        return stage_of(self.node)

    def system(self, arm: Arm) -> System:
        return System(self.node, "evolved", arm.system_prompt, arm.name, self.vector, arm.clustering)


def read_individuals(path: Path) -> list[Individual]:
    """What the lines of the file hold; none where there is no file.  A last line that a kill cut short is left out."""
    return [Individual(**line) for line in load_lines(path, Individual, "individual")]


def stage_of(node: str) -> str:
    """The stage in a node's id: "pre" or "mut" of a child, or "pop"."""
    _, separator, phase = node.rpartition("_child")
    return phase.partition("_")[2] if separator else "pop"


class InProgressFile(TypedDict):
    """in_progress.json: the generation, its evaluations so far, and the best individual of the run until then."""

    generation: int
    evaluations: int
    best_node: str | None
    best_fitness: float | None


IN_PROGRESS = "in_progress.json"


def read_in_progress(folder: Path) -> InProgressFile | None:
    """None for a run that did not stop in the middle of a generation."""
    try:
        return read_state(folder / IN_PROGRESS, InProgressFile, "a run goes on without this file: remove it")
    except FileNotFoundError:
        return None


EdgeKind = Literal["parent", "mutation", "next"]
Edge = TypedDict("Edge", {"from": str, "to": str, "kind": EdgeKind})


class Node(TypedDict):
    id: str
    generation: int
    stage: str
    fitness: FiniteFloat
    mean_tokens: FiniteFloat
    correctness: FiniteFloat
    elite: bool
    target: str | None


class Tree(TypedDict):
    """evolution_tree.json."""

    nodes: list[Node]
    edges: list[Edge]


def read_tree(output: OutputFolder) -> Tree:
    try:
        return read_state(output.tree, Tree, parse=checked_json)
    except FileNotFoundError:
        return {"nodes": [], "edges": []}


def tree_before(tree: Tree, generation: int) -> Tree:
    """The tree without the nodes and edges of this generation and later ones.

    The edges to its survivors ("next") are those of an earlier generation; edges from parents are its own.
    """
    nodes = [one for one in tree["nodes"] if one["generation"] < generation]
    kept = {one["id"] for one in nodes}
    edges = [e for e in tree["edges"] if e["from"] in kept and (e["to"] in kept or e["kind"] == "next")]
    return {"nodes": nodes, "edges": edges}


def add_to_tree(
    tree: Tree, generation: Generation, ids: Sequence[str], before: int | None = None, *, is_alone: bool = True
) -> None:
    """Add a generation of an arm; `before` is the number of the one that the arm had before it.

    The next generation of an arm that is not alone is known only when it comes; until then the edges of its survivors
    lead to no node.
    """
    edges = tree["edges"]
    for edge in edges:
        if edge["kind"] == "next" and before is not None and edge["from"].startswith(f"g{before}_"):
            edge["to"] = re.sub(r".*[^0-9]", plan_name("population", generation.number), edge["to"])
    for one in generation.evaluated:
        score = one.score
        tree["nodes"].append(
            {
                "id": one.node,
                "generation": generation.number,
                "stage": stage_of(one.node),
                "fitness": score.fitness,
                "mean_tokens": score.mean_tokens,
                "correctness": score.correctness,
                "elite": one.is_elite,
                "target": _target(one, ids),
            }
        )
        kind: EdgeKind = "parent" if one.target is None else "mutation"
        edges += [{"from": parent, "to": one.node, "kind": kind} for parent in one.parents]
    number = generation.number
    following = plan_name("population", number + 1) if is_alone else f"g{number}_survivor"
    survivors = enumerate(generation.survivors)
    edges += [{"from": node, "to": f"{following}{index}", "kind": "next"} for index, node in survivors]


def _target(one: Evaluated, ids: Sequence[str]) -> str | None:
    return None if one.target is None else ids[one.target]


def _notes(one: Evaluated) -> dict[str, str]:
    """Why replies of the reflector were unusable; empty where none was."""
    reasons = {"merge_fallback": one.merge_fallback, "skip_reason": one.skip_reason}
    return {name: reason for name, reason in reasons.items() if reason}


def individual_lines(generation: Generation, arm: str, ids: Sequence[str]) -> list[dict[str, Any]]:
    """The lines of individuals.jsonl of a generation."""
    return [
        {
            "node": one.node,
            "generation": generation.number,
            "arm": arm,
            "target": _target(one, ids),
            "fitness": one.score.fitness,
            "mean_tokens": one.score.mean_tokens,
            "correctness": one.score.correctness,
            "deltas": list_to_deltas(one.genome.deltas, ids),
            "scratchpad": one.genome.scratchpad,
            **_notes(one),
        }
        for one in generation.evaluated
    ]


class Recorder:
    """Writes the results of each generation; `history` has those that are recorded."""

    def __init__(
        self,
        output: OutputFolder,
        store: Store,
        run_id: str,
        search: Search,
        artifacts: ArtifactRequests,
        *,
        is_priced: bool,
        history: Sequence[GenerationRecord],
        generation: int,
    ) -> None:
        """Take up what the folder holds of the generations before `generation`; `history` is of these."""
        self._output, self._store, self._run_id, self._search = output, store, run_id, search
        self._artifacts, self._is_priced = artifacts, is_priced
        self._ids = search.any_params.cluster_ids
        self._best: BestOfRun | None = None  # of which the files were requested
        self.history = list(history)
        self._tree = tree_before(read_tree(output), generation)
        if output.individuals.exists():
            kept = load_lines(output.individuals, Individual, "individual")
            lines = [json_line(line) for line in kept if line["generation"] < generation]
            write_output(output.individuals, b"".join(lines))
        for role, names in (self.history[-1].get("answered", {}) if self.history else {}).items():
            store.add_providers(run_id, role, names)

    def record(self, finished: FinishedGeneration, wall_s: float) -> None:
        """Write one finished generation."""
        output, generation, arm = self._output, finished.generation, finished.arm
        best = self._search.best(finished.state)
        assert best is not None, "a generation always evaluates an individual"
        before = [line["generation"] for line in self.history if line["arm"] == arm.name]
        self.history.append(self._line(finished, best, wall_s))
        alone = len(self._search.arms) == 1
        add_to_tree(self._tree, generation, self._ids, max(before, default=None), is_alone=alone)
        output.write_state("evolution_tree.json", self._tree)
        output.write("history.jsonl", "".join(json.dumps(line) + "\n" for line in self.history))
        append_lines(output.individuals, individual_lines(generation, arm.name, self._ids))
        leader = generation.leader.genome.deltas
        output.write_json("deltas_current.json", list_to_deltas(leader, self._ids))
        output.write_json("deltas_best.json", list_to_deltas(best.best.deltas, self._ids))
        self._request_files(leader, arm, best)
        output.write("evolution_state.json", self._search.to_json(finished.state))

    def request_again(self, state: RunState) -> None:
        """Have the files of the last recorded generation made: the session that recorded it may have ended before."""
        population = self.history[-1]["population"]
        leader = max(population, key=lambda one: one["fitness"])["node"]  # of equal ones the first
        found = [one.vector for one in read_individuals(self._output.individuals) if one.node == leader]
        best = self._search.best(state)
        if found and best:
            self._request_files(found[-1], self._search.arm(state.arm), best)

    def _request_files(self, leader: tuple[float, ...], arm: Arm, best: BestOfRun) -> None:
        self._artifacts.request_processor(PROCESSOR_FILE, leader, arm.clustering)
        if best != self._best:
            self._artifacts.request_processor("processor_best.py", best.best.deltas, best.arm.clustering)
        self._best = best
        start = self.history[0]["population"][0]["mean_tokens"]
        name = baseline_name(self._search.any_params.initial_deltas)
        self._artifacts.request_plots(self.history, self._tree, start, name)

    def _line(self, finished: FinishedGeneration, best: BestOfRun, wall_s: float) -> GenerationRecord:
        """The line of a generation; of what the run has used so far it has the share of this generation."""
        usage, earlier, generation = self._store.usage(self._run_id), self.history, finished.generation

        def share(name: str, before: float) -> float:
            return max(0.0, usage.get(name, 0.0) - before)

        def scored(one: Evaluated, **target: str | None) -> ScoredIndividual:
            names = ("fitness", "shortness", "correctness", "mean_tokens")
            score = {name: getattr(one.score, name) for name in names}
            return cast(ScoredIndividual, {"node": one.node, **target, **score, **_notes(one)})

        fitness = [one.score.fitness for one in generation.population]
        cost = share("cost_usd", sum(line["cost_usd"] or 0 for line in earlier))
        changed = options_of(read_changes(self._output), generation.number)
        line: GenerationRecord = {
            "generation": generation.number,
            "arm": finished.arm.name,
            "best": max(fitness),
            "mean": sum(fitness) / len(fitness),
            "best_ever": best.best.fitness,
            "population": [scored(one) for one in generation.population],
            "offspring": [scored(one, target=_target(one, self._ids)) for one in generation.offspring],
            "evaluations": dataclasses.asdict(finished.evaluations),
            "seconds": {"wall": round(wall_s, 3), **{k: round(v, 3) for k, v in finished.seconds.items()}},
            "tokens": {n: int(share(n, sum(line["tokens"][n] for line in earlier))) for n in TOKEN_COUNTS},
            "calls": int(share("requests", sum(line["calls"] for line in earlier))),
            "cost_usd": round(cost, 6) if self._is_priced else None,
            "answered": {role: self._store.providers(self._run_id, role) for role in get_args(Role)},
        }
        return {**line, "settings_changed": changed} if changed else line
