"""What is recorded of a search in the output folder: `history.jsonl`, `individuals.jsonl` and `clusters.json`.

Every generation goes there before the next one starts.  `evolution_state.json` is written last, so whatever else is in
the folder is never older than the state; what a killed generation left beyond it is dropped when the run is resumed.

The nodes of the evolution tree are evaluations: g{g}_pop{i}, g{g}_child{j}_pre, g{g}_child{j}_mut.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired, cast, get_args

from pydantic import Field, FiniteFloat
from typing_extensions import TypedDict

from orchestrator.evolve.optimisers import Evaluated, Generation, canonical_order, list_to_deltas
from orchestrator.evolve.resume import read_changes
from orchestrator.evolve.systems import Arm, System
from orchestrator.report.statistics import Point
from orchestrator.runs.folder import (
    OutputError,
    OutputFolder,
    append_lines,
    find_json,
    json_line,
    load_lines,
    write_output,
)
from orchestrator.runs.status import TOKEN_COUNTS
from tasks.common.validation import Delta
from tasks.cpu.plots import EVOLUTION_PLOTS
from tasks.openai.endpoint import Role
from tasks.plan import plan_name
from tasks.records import PROCESSOR_FILE

if TYPE_CHECKING:
    from orchestrator.evolve.search import BestOfRun, FinishedGeneration, RunState, Search
    from orchestrator.runs.jobs import ArtifactRequests
    from tasks.store.store import Store

CLUSTERS_FILE = "clusters.json"


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


def read_history(output: OutputFolder, generations: int | None = None) -> list[GenerationRecord]:
    """All lines, or those of the first `generations`, which the saved state counts; a damaged file is refused."""
    found = cast("list[GenerationRecord]", load_lines(output.history, GenerationRecord, "generation", is_whole=True))
    if generations is None:
        return found
    if len(found) < generations:
        raise OutputError(
            f"{output.history} has {len(found)} of the {generations} generations that {output.state.name} counts: "
            "it is damaged; restore it"
        )
    return found[:generations]


@dataclass(frozen=True)
class Individual:
    """A line of individuals.jsonl: one evaluation of the search (`Evaluated`); `arm` is the name of its system prompt.

    target: the cluster that the mutation changed; correctness: the share of correct answers on the training set.
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
    parents: Sequence[str] = ()
    place: int | None = None
    merge_fallback: str = ""
    skip_reason: str = ""

    @property
    def is_elite(self) -> bool:
        """Whether it entered the next population unchanged."""
        return self.place is not None and self.stage == "pop"

    @property
    def vector(self) -> tuple[float, ...]:
        """The deltas in canonical order."""
        return tuple(self.deltas[cluster] for cluster in canonical_order(list(self.deltas)))

    @property
    def point(self) -> Point:
        return Point(self.mean_tokens, self.correctness)

    @property
    def stage(self) -> str:
        """ "pre" or "mut" of a child, or "pop"."""
        _, is_child, name = self.node.rpartition("_child")
        return name.partition("_")[2] if is_child else "pop"

    def system(self, arm: Arm) -> System:
        return System(self.node, "evolved", arm.system_prompt, arm.name, self.vector, arm.clustering)


def read_individuals(output: OutputFolder, history: History) -> list[Individual]:
    """Those that the history names; a file that lacks some is refused, what a killed generation has left is dropped."""
    lines = [Individual(**line) for line in load_lines(output.individuals, Individual, "individual")]
    found = [one for one in lines if one.generation < len(history)]
    named = {one["node"] for line in history for one in (*line["population"], *line["offspring"])}
    if sorted(named) != sorted(one.node for one in found):
        known = len(named & {one.node for one in found})
        twice = ", and lines too many" if len(found) > known else ""
        raise OutputError(
            f"{output.individuals} has {known} of the {len(named)} individuals that {output.history.name} names"
            f"{twice}: it is damaged; restore it"
        )
    return found


EdgeKind = Literal["parent", "mutation", "next"]
Edge = TypedDict("Edge", {"from": str, "to": str, "kind": EdgeKind})


def edges_of(individuals: Sequence[Individual]) -> list[Edge]:
    """Who descends from whom; "next" leads from one that survives to itself in its arm's next population."""
    turns = dict[str, list[int]]()
    for arm, number in dict.fromkeys((one.arm, one.generation) for one in individuals):
        turns.setdefault(arm, []).append(number)
    following = {arm: dict(itertools.pairwise(numbers)) for arm, numbers in turns.items()}
    edges = list[Edge]()
    for one in individuals:
        kind: EdgeKind = "mutation" if one.stage == "mut" else "parent"
        edges += [{"from": parent, "to": one.node, "kind": kind} for parent in one.parents]
        if one.place is not None and (later := following[one.arm].get(one.generation)) is not None:
            edges.append({"from": one.node, "to": f"{plan_name('population', later)}{one.place}", "kind": "next"})
    return edges


def tree_of(individuals: Sequence[Individual]) -> dict[str, Any]:
    """What the plot of the evolution tree shows."""
    names = ("generation", "stage", "fitness", "target")
    nodes = [{"id": one.node, "elite": one.is_elite, **{n: getattr(one, n) for n in names}} for one in individuals]
    return {"nodes": nodes, "edges": edges_of(individuals)}


def individuals_of(generation: Generation, arm: str, ids: Sequence[str]) -> list[Individual]:
    """The lines of a generation of an arm; ids: of the clusters."""
    return [
        Individual(
            one.node, generation.number, arm, one.score.fitness, one.score.mean_tokens, one.score.correctness,
            list_to_deltas(one.genome.deltas, ids), _target(one, ids), one.genome.scratchpad,
            one.parents, one.place, one.merge_fallback, one.skip_reason,
        )
        for one in generation.evaluated
    ]  # fmt: skip


def _target(one: Evaluated, ids: Sequence[str]) -> str | None:
    return None if one.target is None else ids[one.target]


@dataclass(frozen=True)
class ClusterOfRun:
    """One cluster of the vocabulary: `count` tokens, of which `examples` are texts; 0 and empty where not known."""

    id: str
    description: str
    examples: tuple[str, ...] = ()
    count: int = 0


@dataclass(frozen=True)
class ClustersOfArm:
    """The clusters of an arm in the order of their ids; `clustering` is the content hash."""

    arm: str
    clustering: str
    clusters: tuple[ClusterOfRun, ...]


class ClustersFile(TypedDict):
    """clusters.json."""

    arms: list[ClustersOfArm]


def keep_clusters(output: OutputFolder, store: Store, run_id: str, arms: Sequence[Arm]) -> None:
    """Write what the clusters of the arms hold.  Descriptions of the user's own keep the examples of the clustering."""
    found = []
    for arm in arms:
        texts = {str(d["id"]): d["description"] for d in store.clusterings.descriptions(run_id, arm.clustering)}
        clusters = tuple(
            ClusterOfRun(name := str(one["id"]), texts[name], tuple(one.get("examples", ())), one.get("count", 0))
            for one in store.clusterings.made_descriptions(arm.clustering)
        )
        found.append(ClustersOfArm(arm.name, arm.clustering, clusters))
    output.write_json(CLUSTERS_FILE, {"arms": [dataclasses.asdict(one) for one in found]})


def read_clusters(output: OutputFolder) -> list[ClustersOfArm]:
    """None before the vocabulary is clustered."""
    found = find_json(output.path / CLUSTERS_FILE, ClustersFile)
    return found["arms"] if found else []


class Recorder:
    """Writes the results of each generation; `history` and `individuals` have those that are recorded."""

    def __init__(
        self,
        output: OutputFolder,
        store: Store,
        run_id: str,
        search: Search,
        artifacts: ArtifactRequests,
        *,
        is_priced: bool,
        history: History,
    ) -> None:
        """Take up what the folder holds of the generations of `history`."""
        self._output, self._store, self._run_id, self._search = output, store, run_id, search
        self._artifacts, self._is_priced = artifacts, is_priced
        self._ids = search.any_params.cluster_ids
        self._best: BestOfRun | None = None  # of which the files were requested
        self.history = list(history)
        self.individuals = read_individuals(output, history)
        if output.individuals.exists():
            write_output(output.individuals, b"".join(json_line(dataclasses.asdict(one)) for one in self.individuals))
        for role, names in (self.history[-1].get("answered", {}) if self.history else {}).items():
            store.add_providers(run_id, role, names)

    def record(self, finished: FinishedGeneration, wall_s: float) -> BestOfRun:
        """Write one finished generation; returns the best so far."""
        output, generation, arm = self._output, finished.generation, finished.arm
        best = self._search.best(finished.state)
        assert best is not None, "a generation always evaluates an individual"
        self.history.append(self._line(finished, best, wall_s))
        new = individuals_of(generation, arm.name, self._ids)
        self.individuals += new
        append_lines(output.individuals, map(dataclasses.asdict, new))  # before the line that names them
        output.write("history.jsonl", "".join(json.dumps(line) + "\n" for line in self.history))
        self._write_deltas(generation.leader.genome.deltas, arm, best)
        output.write("evolution_state.json", self._search.to_json(finished.state))
        return best

    def write_again(self, state: RunState) -> None:
        """Write the files of the last recorded generation: the session that recorded it may have ended before."""
        population = self.history[-1]["population"]
        leader = max(population, key=lambda one: one["fitness"])["node"]  # of equal ones the first
        found = [one.vector for one in self.individuals if one.node == leader]
        best = self._search.best(state)
        if found and best:
            self._write_deltas(found[-1], self._search.arm(state.arm), best)

    def _write_deltas(self, leader: tuple[float, ...], arm: Arm, best: BestOfRun) -> None:
        self._output.write_json("deltas_current.json", list_to_deltas(leader, self._ids))
        self._output.write_json("deltas_best.json", list_to_deltas(best.best.deltas, self._ids))
        self._artifacts.request_processor(PROCESSOR_FILE, leader, arm.clustering)
        if best != self._best:
            self._artifacts.request_processor("processor_best.py", best.best.deltas, best.arm.clustering)
        self._best = best
        data = {"history": self.history, "tree": tree_of(self.individuals)}
        self._artifacts.request_plots("evolution", EVOLUTION_PLOTS, data)

    def _line(self, finished: FinishedGeneration, best: BestOfRun, wall_s: float) -> GenerationRecord:
        """The line of a generation; of what the run has used so far it has the share of this generation."""
        usage, earlier, generation = self._store.usage(self._run_id), self.history, finished.generation

        def share(name: str, before: float) -> float:
            return max(0.0, usage.get(name, 0.0) - before)

        def scored(one: Evaluated, **target: str | None) -> ScoredIndividual:
            score = {n: getattr(one.score, n) for n in ("fitness", "shortness", "correctness", "mean_tokens")}
            notes = {"merge_fallback": one.merge_fallback, "skip_reason": one.skip_reason}
            said = {name: reason for name, reason in notes.items() if reason}
            return cast(ScoredIndividual, {"node": one.node, **target, **score, **said})

        fitness = [one.score.fitness for one in generation.population]
        cost = share("cost_usd", sum(line["cost_usd"] or 0 for line in earlier))
        changes = [one.options for one in read_changes(self._output) if one.generation == generation.number]
        changed = {name: new for options in changes for name, (_, new) in options.items()}
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
