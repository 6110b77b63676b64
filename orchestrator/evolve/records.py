"""What is recorded of each generation in the output folder.

Every generation goes there before the next one starts.  `evolution_state.json` is written last, so whatever else is in
the folder is never older than the state; what a killed generation left beyond it is dropped when the run is resumed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, cast, get_args

from orchestrator.evolve.changes import options_of, read_changes
from orchestrator.evolve.deploy import clear_deploy, write_deploy
from orchestrator.evolve.evolution_tree import EvolutionTree, TreeFile
from orchestrator.evolve.individuals import IndividualsFile, notes_on
from orchestrator.evolve.optimisers.base import Best, Evaluated, Genome, list_to_deltas
from orchestrator.evolve.search import BestOfRun, FinishedGeneration, RunState, Search
from orchestrator.evolve.systems import Arm, Book
from orchestrator.history import read_history, write_history
from orchestrator.report.document import front_file, plot_points, report_of
from orchestrator.report.figures import ReportFile
from orchestrator.report.formatting import baseline_name
from orchestrator.report.statistics import Comparison
from orchestrator.runs.artifacts import ArtifactRequests
from orchestrator.runs.folder import OutputFolder, read_state
from orchestrator.runs.status import TOKEN_COUNTS
from orchestrator.settings import Settings
from tasks.common.validation import checked_json
from tasks.openai.endpoint import Role
from tasks.plan import Evaluations
from tasks.queues import EXPORTS
from tasks.store.store import Store


class Recorder:
    """Writes the results of each generation; keeps the history and the tree."""

    search: Search  # from the preparation on

    def __init__(
        self,
        output: OutputFolder,
        store: Store,
        run_id: str,
        cluster_ids: Sequence[str],
        artifacts: ArtifactRequests,
        is_priced: bool = True,
    ) -> None:
        self.output = output
        self.store = store
        self.run_id = run_id
        self.cluster_ids = tuple(cluster_ids)
        self.artifacts = artifacts
        self.is_priced = is_priced
        self.history: list[dict[str, Any]] = []
        self.tree = EvolutionTree(self.cluster_ids)
        self.individuals = IndividualsFile(output.individuals, self.cluster_ids)
        self._best: BestOfRun | None = None

    def resume(self, generation: int) -> None:
        """Take up what the folder holds of the generations before this one."""
        self.history = [g for g in read_history(self.output.history) if g["generation"] < generation]
        self.individuals.keep_before(generation)
        if self.output.tree.exists():
            self.tree.restore(read_state(self.output.tree, TreeFile, parse=checked_json), generation)
        for role, names in (self.history[-1].get("answered", {}) if self.history else {}).items():
            self.store.add_providers(self.run_id, role, names)

    def record(self, finished: FinishedGeneration, wall_s: float) -> None:
        """Write one finished generation."""
        usage, best = self.store.usage(self.run_id), self.search.best(finished.state)
        assert best is not None, "a generation always evaluates an individual"
        line = history_line(finished, best, self.cluster_ids, wall_s, usage, self.history, self.is_priced)
        answered = {role: self.store.providers(self.run_id, role) for role in get_args(Role)}
        changed = options_of(read_changes(self.output), finished.generation.number)
        self.history.append(line | {"answered": answered} | ({"settings_changed": changed} if changed else {}))
        before = [line["generation"] for line in self.history[:-1] if line["arm"] == finished.arm.name]
        self.tree.add(finished.generation, max(before, default=None), is_alone=len(self.search.arms) == 1)
        self.output.write_state("evolution_tree.json", self.tree.data())
        write_history(self.output, self.history)
        self.individuals.append(finished.generation, finished.arm.name)
        leader = finished.generation.leader.genome
        self._write_deltas("deltas_current.json", leader)
        self._write_deltas("deltas_best.json", best.best)
        self._request_files(leader.deltas, finished.arm, best)
        self.output.write("evolution_state.json", self.search.to_json(finished.state))

    def request_again(self, state: RunState) -> None:
        """Have the files of the last recorded generation made: the session that recorded it may have ended before."""
        population = self.history[-1]["population"]
        leader = max(population, key=lambda one: cast(float, one["fitness"]))["node"]  # of equal ones the first
        deltas, best = self.individuals.deltas_of(leader), self.search.best(state)
        if deltas and best:
            self._request_files(deltas, self.search.arm(state.arm), best)

    def _request_files(self, leader: tuple[float, ...], arm: Arm, best: BestOfRun) -> None:
        for export in EXPORTS:
            if export.made_of == "leader":
                self.artifacts.request_export(export, leader, arm.clustering)
            elif export.made_of == "best" and best != self._best:
                self.artifacts.request_export(export, best.best.deltas, best.arm.clustering)
        self._best = best
        self.artifacts.request_plots(self.history, self.tree.data(), self.baseline_tokens(), self._baseline_name())

    def record_final(self, book: Book, comparisons: Sequence[Comparison], settings: Settings) -> ReportFile:
        """Write what a finished run has shown, and what goes to the server."""
        report = report_of(self.run_id, book, settings.goal, settings.margin, settings.seed, whole=settings.whole)
        self.output.write_json("report.json", dataclasses.asdict(report))
        self.output.write_json("front.json", dataclasses.asdict(front_file(report)))
        self.output.write_json("answers.json", [dataclasses.asdict(comparison) for comparison in comparisons])
        self.artifacts.request_comparison_plots(plot_points(report))
        clear_deploy(self.output)
        examples = self.store.examples(self.run_id)
        example = (examples.get("validation") or examples["training"])[0]
        write_deploy(self.output, self.run_id, settings, book.system(book.winner), book.cap, example)
        return report

    def baseline_tokens(self) -> float | None:
        """Mean answer length of the initial individual, in tokens."""
        return self.history[0]["population"][0]["mean_tokens"] if self.history else None

    def _baseline_name(self) -> str:
        return baseline_name(self.search.any_params.initial_deltas)

    def _write_deltas(self, name: str, genome: Genome | Best) -> None:
        self.output.write_json(name, list_to_deltas(genome.deltas, self.cluster_ids))


def evaluations_of(history: Sequence[Mapping[str, Any]]) -> Evaluations:
    """The evaluations of all recorded generations."""
    return sum((Evaluations(**line["evaluations"]) for line in history), Evaluations())


def history_line(
    finished: FinishedGeneration,
    best: BestOfRun,
    cluster_ids: Sequence[str],
    wall_s: float,
    usage: Mapping[str, float],
    earlier: Sequence[Mapping[str, Any]],
    is_priced: bool = True,
) -> dict[str, Any]:
    """One line of `history.jsonl`.  `usage` is the run's total so far; the line holds this generation's share.

    The cost is null when the prices are not known.
    """

    def share(name: str, before: float) -> float:
        return max(0.0, usage.get(name, 0.0) - before)

    def target(evaluated: Evaluated) -> str | None:
        return None if evaluated.target is None else cluster_ids[evaluated.target]

    generation = finished.generation
    fitness = [evaluated.score.fitness for evaluated in generation.population]
    return {
        "generation": generation.number,
        "arm": finished.arm.name,
        "best": max(fitness),
        "mean": sum(fitness) / len(fitness),
        "best_ever": best.best.fitness,
        "population": [{"node": one.node, **_score(one), **notes_on(one)} for one in generation.population],
        "offspring": [
            {"node": one.node, "target": target(one), **_score(one), **notes_on(one)} for one in generation.offspring
        ],
        "evaluations": dataclasses.asdict(finished.evaluations),
        "seconds": {"wall": round(wall_s, 3), **{k: round(v, 3) for k, v in finished.seconds.items()}},
        "tokens": {n: int(share(n, sum(g["tokens"][n] for g in earlier))) for n in TOKEN_COUNTS},
        "calls": int(share("requests", sum(g["calls"] for g in earlier))),
        "cost_usd": round(share("cost_usd", sum(g["cost_usd"] or 0 for g in earlier)), 6) if is_priced else None,
    }


def _score(evaluated: Evaluated) -> dict[str, float]:
    score = evaluated.score
    return {
        "fitness": score.fitness,
        "shortness": score.shortness,
        "correctness": score.correctness,
        "mean_tokens": score.mean_tokens,
    }
