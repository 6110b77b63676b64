"""What a run has found, of any kind and at any moment: its output folder, read and checked.

    results = RunResults.open(Path("outputs/evolve"))
    results.report.conclusion.sentence, results.individuals[0].deltas, results.comparisons[0].after[0].text

Each part is read when it is first asked for, and then kept; a run at work is read anew by opening it again.  A part
whose file is not there yet is None or empty.  A file that is damaged raises `OutputError`, in one line that names the
file and the place in it, and leaves the other parts readable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from orchestrator.collect.report import CollectionResult, read_collection
from orchestrator.evolution_results import (
    Descent,
    GenerationResult,
    IndividualResult,
    LineageFile,
    generation_result,
    individual_result,
)
from orchestrator.evolve.changes import SettingsChange, read_changes, written_settings
from orchestrator.evolve.individuals import read_individuals
from orchestrator.evolve.systems import Book, read_book
from orchestrator.history import read_history
from orchestrator.reflector_calls import ReflectorCall, read_reflector_call
from orchestrator.report.figures import FrontFile, ReportedSystem, ReportFile
from orchestrator.report.statistics import Comparison
from orchestrator.runs.folder import OutputError, OutputFolder, read_json, read_state, run_file
from orchestrator.runs.kinds import ShownTable, kind_of
from orchestrator.runs.provenance import ClusterOfRun, ClustersOfArm, Versions, read_clusters, read_versions
from orchestrator.runs.sameness import QUESTIONS, QuestionHashes, read_servers
from orchestrator.runs.status import RunStatus, read_usage, run_status
from orchestrator.settings import SettingsError
from orchestrator.settings.documents import flatten, read_mapping
from orchestrator.settings.population import ForkFile
from orchestrator.settings.references import FORK_FILE
from tasks.common.validation import Delta, checked_json

EVOLVE, COLLECT, SETTINGS_FILE = "evolve", "collect", "settings.yaml"


@dataclass(frozen=True)
class RunResults:
    """A run by its output folder; `open` checks that there is one."""

    folder: Path

    @classmethod
    def open(cls, folder: Path) -> RunResults:
        """Raises: OutputError when the folder holds no run."""
        run_file(folder)
        return cls(folder)

    @property
    def output(self) -> OutputFolder:
        return OutputFolder(self.folder)

    @cached_property
    def run(self) -> str:
        return run_file(self.folder)["id"]

    @cached_property
    def kind(self) -> str:
        """ "evolve", "collect", "guide" or "route"."""
        return run_file(self.folder)["kind"]

    @cached_property
    def status(self) -> RunStatus:
        return run_status(self.folder)

    @cached_property
    def settings(self) -> Mapping[str, str]:
        """All settings as text, by name: without CONFIG_, dotted for other kinds.  Empty before the run's start."""
        return written_settings(self.output) if self.kind == EVOLVE else _yaml_settings(self.folder)

    @cached_property
    def figures(self) -> tuple[tuple[str, str], ...]:
        """The figures of its kind as `orchestrator status` shows them: what, and its value in words."""
        _, kind = kind_of(self.folder)
        return tuple(kind.figure_lines(kind.progress(self.folder).figures))

    @cached_property
    def tables(self) -> tuple[ShownTable, ...]:
        """What a guided or a routed run has found; empty for an evolution and a collection, which have other parts."""
        return tuple(kind_of(self.folder)[1].tables(self.folder))

    @cached_property
    def settings_changes(self) -> tuple[SettingsChange, ...]:
        return tuple(read_changes(self.output))

    @cached_property
    def fork(self) -> ForkFile | None:
        """The run that this one was forked from, and what it began with; None for one that began by itself."""
        try:
            return read_state(self.folder / FORK_FILE, ForkFile)
        except FileNotFoundError:
            return None

    @cached_property
    def versions(self) -> tuple[Versions, ...]:
        """Of each session that had other ones than the session before."""
        return tuple(read_versions(self.output))

    @cached_property
    def servers(self) -> tuple[Mapping[str, object], ...]:
        """What each target server that has answered has reported of itself: model, hash of the weights, version."""
        return tuple(read_servers(self.output))

    @cached_property
    def question_hashes(self) -> Mapping[str, Mapping[str, str]]:
        """By set ("training", "validation", "test"), the content hash of each question by its id."""
        try:
            return read_state(self.folder / QUESTIONS, QuestionHashes)
        except FileNotFoundError:
            return {}

    @property
    def questions(self) -> Mapping[str, tuple[str, ...]]:
        """The ids of the questions by set."""
        return {name: tuple(hashes) for name, hashes in self.question_hashes.items()}

    @cached_property
    def usage(self) -> Mapping[str, float]:
        """Tokens ("target", "prompt", "cached", "completion"), "requests" and "cost_usd" of the whole run so far."""
        return read_usage(self.output)

    @cached_property
    def arms(self) -> tuple[ClustersOfArm, ...]:
        """The clusters of each arm of the search; none before they are made."""
        return tuple(read_clusters(self.output))

    @property
    def clusters(self) -> tuple[ClusterOfRun, ...]:
        """Those of the first arm."""
        return self.arms[0].clusters if self.arms else ()

    @cached_property
    def book(self) -> Book:
        """All systems that were measured so far, and what was decided."""
        return read_book(self.output)

    @cached_property
    def generations(self) -> tuple[GenerationResult, ...]:
        return tuple(generation_result(line) for line in read_history(self.output.history))

    @cached_property
    def _lineage(self) -> LineageFile:
        try:
            found: LineageFile = read_state(self.output.tree, LineageFile, parse=checked_json)
        except FileNotFoundError:
            return {"nodes": [], "edges": []}
        return found

    @cached_property
    def individuals(self) -> tuple[IndividualResult, ...]:
        """Every evaluation of the recorded generations, in their order."""
        recorded = {record["node"]: record for record in read_individuals(self.output.individuals)}
        count = len(self.generations)
        nodes = [node for node in self._lineage["nodes"] if node["generation"] < count]
        return tuple(individual_result(node, recorded.get(node["id"])) for node in nodes)

    @cached_property
    def descent(self) -> tuple[Descent, ...]:
        """The edges between these individuals."""
        names = {one.name for one in self.individuals}
        edges = self._lineage["edges"]
        return tuple(Descent(e["from"], e["to"], e["kind"]) for e in edges if e["from"] in names and e["to"] in names)

    def individual(self, name: str) -> IndividualResult:
        for one in self.individuals:
            if one.name == name:
                return one
        raise OutputError(f"{self.folder} has no individual {name!a}; evolution_tree.json has the names")

    @cached_property
    def reflector_calls(self) -> tuple[ReflectorCall, ...]:
        """All calls of the reflector whose texts were kept, by file name."""
        return tuple(read_reflector_call(path) for path in sorted(self.output.prompts.glob("*.txt")))

    @cached_property
    def report(self) -> ReportFile | None:
        """What was shown; None for a run that has not ended."""
        try:
            return read_json(self.folder / "report.json", ReportFile)
        except FileNotFoundError:
            return None

    @cached_property
    def front(self) -> tuple[ReportedSystem, ...]:
        """What `front.json` lists, the fewest tokens first; none for a run that has not ended."""
        try:
            return read_json(self.folder / "front.json", FrontFile).members
        except FileNotFoundError:
            return ()

    @cached_property
    def comparisons(self) -> tuple[Comparison, ...]:
        """The answers of the plain model and of the winner, one comparison for each set of questions."""
        try:
            return read_json(self.output.answers, tuple[Comparison, ...])
        except FileNotFoundError:
            return ()

    @cached_property
    def collection(self) -> CollectionResult | None:
        """What a finished collection has found; None for other kinds of runs."""
        return read_collection(self.folder, self.settings) if self.kind == COLLECT else None

    @cached_property
    def best_deltas(self) -> Mapping[str, float] | None:
        """By cluster: those of the best individual so far, by fitness; None before the first generation."""
        try:
            return read_json(self.folder / "deltas_best.json", dict[str, Delta])
        except FileNotFoundError:
            return None


def _yaml_settings(folder: Path) -> dict[str, str]:
    path = folder / SETTINGS_FILE
    if not path.exists():
        return {}
    try:
        return {name: str(value) for name, value in flatten(read_mapping(path)).items()}
    except SettingsError as error:
        raise OutputError("; ".join(error.problems)) from None
