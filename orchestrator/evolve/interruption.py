"""A run that stops in the middle of a generation: what is known then is written, marked as of a generation in progress.

`evolution_state.json` describes the start of a generation, and a run goes on from there.  So where it exists it is
left as it is; before the end of the first generation it is that of the start.  The best deltas and the processors are
those of all evaluations so far, and `in_progress.json` says so until the generation is done.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import redis
from typing_extensions import TypedDict

from orchestrator.evolve.optimisers.base import Genome, list_to_deltas
from orchestrator.evolve.search import FinishedGeneration, RunState, Search
from orchestrator.farm import FarmUnavailable
from orchestrator.farm.evaluator import Records
from orchestrator.runs.folder import OutputFolder, OutputNotWritable, read_state
from orchestrator.settings import SettingsError
from tasks.plan import Candidate, Phase, Plan
from tasks.store.ownership import RunTaken
from tasks.store.store import Store

log = logging.getLogger(__name__)
IN_PROGRESS = "in_progress.json"


class InProgressFile(TypedDict):
    """in_progress.json: the generation, its evaluations so far, and the best individual of the run until then."""

    generation: int
    evaluations: int
    best_node: str | None
    best_fitness: float | None


@dataclass(frozen=True)
class Scored:
    """One evaluated individual; `clustering` is that of its deltas."""

    node: str
    clustering: str
    genome: Genome
    fitness: float


def scored(plan: Plan, records: Records) -> Iterator[Scored]:
    """The evaluations of a plan that are done, in its order, on the whole training set."""
    for candidate in plan.candidates:
        if candidate.examples != "training":
            continue
        genomes: dict[Phase, Genome | None] = {"pre": _before(candidate, records), "mut": _mutated(candidate, records)}
        for phase, genome in genomes.items():
            score = records.get(f"{candidate.index}:{phase}:score")
            if genome is not None and score is not None and not score.get("skipped"):
                yield Scored(plan.node(candidate.index, phase), candidate.clustering, genome, score["fitness"])


def _before(candidate: Candidate, records: Records) -> Genome:
    merged = records.get(f"{candidate.index}:pre:merge", {}).get("scratchpad", candidate.scratchpad)
    return Genome(candidate.deltas, merged)


def _mutated(candidate: Candidate, records: Records) -> Genome | None:
    proposal = records.get(f"{candidate.index}:mut:reflect", {})
    if candidate.target is None or proposal.get("delta") is None:
        return None
    deltas = list(candidate.deltas)
    deltas[candidate.target] = proposal["delta"]
    return Genome(tuple(deltas), proposal["scratchpad"])


class Leader(NamedTuple):
    """An individual, and the clustering of its deltas."""

    genome: Genome
    clustering: str


@dataclass
class InProgress:
    """The generation in progress: `state` at its start, its `plans` with their records so far, and the `leader`, the
    best of the last population that was recorded.
    """

    output: OutputFolder
    store: Store
    run_id: str
    search: Search
    state: RunState
    leader: Leader | None = None
    plans: dict[str, tuple[Plan, Records]] = field(default_factory=dict)

    def next(self, finished: FinishedGeneration) -> None:
        """A generation is recorded: all files are those of its end."""
        self.state = finished.state
        self.leader = Leader(finished.generation.leader.genome, finished.arm.clustering)
        self.plans.clear()
        self.clear()

    def clear(self) -> None:
        (self.output.path / IN_PROGRESS).unlink(missing_ok=True)

    @contextmanager
    def written_if_interrupted(self) -> Iterator[None]:
        """Whatever ends the block early, what is known then is written into the output folder.

        A run that its settings refuse has asked nothing, and leaves no state: they may still be changed.  A run that
        another process has taken over is no longer written by this one.
        """
        try:
            yield
        except (SettingsError, RunTaken):
            raise
        except BaseException as error:
            with suppress(OutputNotWritable):  # it is reported by what ended the block
                self.write(is_farm_up=not isinstance(error, FarmUnavailable | redis.RedisError))
            raise

    def write(self, *, is_farm_up: bool) -> None:
        """Where the farm is down, what it has finished last is not known, and no processor is written; nor before there
        is a clustering.
        """
        if is_farm_up:
            self._refresh()
        done = [found for plan, records in self.plans.values() for found in scored(plan, records)]
        before, node, best, fitness = self.search.best(self.state), None, None, None
        if before is not None:
            best = Leader(Genome(before.best.deltas, before.best.scratchpad), before.arm.clustering)
            fitness = before.best.fitness
        for found in done:
            if fitness is None or found.fitness > fitness:
                best, node, fitness = Leader(found.genome, found.clustering), found.node, found.fitness
        leader = self._leader()
        if not self.output.state.exists():
            self.output.write("evolution_state.json", self.search.to_json(self.state))
        for what, one in (("best", best), ("current", leader)):
            if one is not None:
                deltas = list_to_deltas(one.genome.deltas, self.search.any_params.cluster_ids)
                self.output.write_json(f"deltas_{what}.json", deltas)
        if is_farm_up:
            self._write_processors(best, leader)
        generation = self.state.generation
        if generation < self.search.any_params.generations:
            marker = InProgressFile(generation=generation, evaluations=len(done), best_node=node, best_fitness=fitness)
            self.output.write_state(IN_PROGRESS, marker)
            log.info("stopped in generation %d: %d evaluations of it are done", generation, len(done))

    def _leader(self) -> Leader | None:
        """The best of the population in progress, as far as it is evaluated, else of the last one."""
        members = [
            found for plan, records in self.plans.values() if plan.purpose == "population"
            for found in scored(plan, records)
        ]  # fmt: skip
        best = max(members, key=lambda found: found.fitness, default=None)
        return self.leader if best is None else Leader(best.genome, best.clustering)

    def _refresh(self) -> None:
        """Take up what has been finished since the driver looked last."""
        with suppress(redis.RedisError):
            for name, (plan, records) in self.plans.items():
                self.plans[name] = (plan, {**records, **self.store.stages(self.run_id, name)})

    def _write_processors(self, best: Leader | None, leader: Leader | None) -> None:
        # Imported here: only an interruption needs it.
        from tasks.gpu.processor import generate

        with suppress(LookupError, ValueError, redis.RedisError):  # no clustering yet, or the store is gone
            for name, one in (("processor_best.py", best), ("processor.py", leader)):
                if one is not None:
                    self.output.write(
                        name, generate(self.store, self.run_id, one.genome.deltas, clustering=one.clustering)
                    )


def read_in_progress(folder: Path) -> InProgressFile | None:
    """None for a run that did not stop in the middle of a generation."""
    try:
        return read_state(folder / IN_PROGRESS, InProgressFile, "a run goes on without this file: remove it")
    except FileNotFoundError:
        return None
