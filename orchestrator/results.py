"""What a run has found, of any kind and at any moment: its output folder, read and checked.

    results = RunResults.open(Path("outputs/evolve"))
    results.report.conclusion.sentence, results.individuals[0].deltas, results.comparisons[0].after[0].text

Each part is read when it is first asked for, and then kept.  A part whose file is not there yet is None or empty.  A
damaged file raises `OutputError`, in one line that names it and the place in it; the other parts stay readable.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from orchestrator.collect.report import CollectionFile, read_collection
from orchestrator.evolve.optimisers import generations_in
from orchestrator.evolve.questions import QUESTIONS, QuestionHashes
from orchestrator.evolve.records import (
    ClusterOfRun,
    ClustersOfArm,
    Edge,
    GenerationRecord,
    Individual,
    edges_of,
    read_clusters,
    read_history,
    read_individuals,
)
from orchestrator.evolve.resume import SettingsChange, read_changes, read_servers, written_settings
from orchestrator.evolve.systems import Book, read_book
from orchestrator.report.conclusion import report_of
from orchestrator.report.model import ReportedSystem, ReportFile, front_file
from orchestrator.report.statistics import Comparison
from orchestrator.runs.folder import OutputError, OutputFolder, find_json, read_output_text, run_file
from orchestrator.runs.kinds import SETTINGS_FILE, ShownTable, kind_of
from orchestrator.runs.status import RunStatus, Versions, read_usage, read_versions, run_status
from orchestrator.settings import SettingsError
from orchestrator.settings.documents import flatten, read_mapping
from orchestrator.settings.inputs import FORK_FILE, ForkFile
from orchestrator.settings.kconfig import default_values, read_values
from tasks.common.validation import Delta

EVOLVE, COLLECT = "evolve", "collect"
T = TypeVar("T")


@dataclass(frozen=True)
class RunResults:
    """A run by its output folder; `open` checks that there is one."""

    folder: Path

    @classmethod
    def open(cls, folder: Path) -> RunResults:
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
        return run_file(self.folder)["kind"]

    @cached_property
    def status(self) -> RunStatus:
        return run_status(self.folder)

    @cached_property
    def settings(self) -> Mapping[str, str]:
        """All settings as text, by name: without CONFIG_, dotted for other kinds.  Empty before the run's start."""
        if self.kind == EVOLVE:
            return written_settings(self.output)
        path = self.folder / SETTINGS_FILE
        try:
            found = flatten(read_mapping(path)) if path.exists() else {}
        except SettingsError as error:
            raise OutputError("; ".join(error.problems)) from None
        return {name: str(value) for name, value in found.items()}

    @cached_property
    def values(self) -> Mapping[str, Any]:
        """The settings of an evolution by the names of `Settings`, the default of one that its file lacks."""
        return read_values({**default_values(), **self.settings})[0]

    @cached_property
    def figures(self) -> Sequence[tuple[str, str]]:
        kind = kind_of(self.folder)
        return kind.figure_lines(kind.progress(self.folder).figures)

    @cached_property
    def tables(self) -> Sequence[ShownTable]:
        return kind_of(self.folder).tables(self.folder)

    @cached_property
    def settings_changes(self) -> Sequence[SettingsChange]:
        return read_changes(self.output)

    @cached_property
    def fork(self) -> ForkFile | None:
        """The run that this one was forked from, and what it began with; None for one that began by itself."""
        return self._read(FORK_FILE, ForkFile)

    @cached_property
    def versions(self) -> Sequence[Versions]:
        return read_versions(self.output)

    @cached_property
    def servers(self) -> Sequence[Mapping[str, object]]:
        """What each target server that has answered has reported of itself: model, hash of the weights, version."""
        return read_servers(self.output)

    @cached_property
    def question_hashes(self) -> Mapping[str, Mapping[str, str]]:
        """By set ("training", "validation", "test"), the content hash of each question by its id."""
        return self._read(QUESTIONS, QuestionHashes) or {}

    @cached_property
    def usage(self) -> Mapping[str, float]:
        """Tokens ("target", "prompt", "cached", "completion"), "requests" and "cost_usd" of the whole run so far."""
        return read_usage(self.output)

    @cached_property
    def arms(self) -> Sequence[ClustersOfArm]:
        """The clusters of each arm of the search; none before they are made."""
        return read_clusters(self.output)

    @property
    def clusters(self) -> Sequence[ClusterOfRun]:
        """Those of the first arm."""
        return self.arms[0].clusters if self.arms else ()

    @cached_property
    def book(self) -> Book:
        return read_book(self.output)

    @cached_property
    def generations(self) -> Sequence[GenerationRecord]:
        """As many as evolution_state.json counts."""
        state = self._read(self.output.state.name, dict[str, Any])
        return read_history(self.output, generations_in(state) if state else None)

    @cached_property
    def individuals(self) -> Sequence[Individual]:
        """Every evaluation of the recorded generations, in their order."""
        return read_individuals(self.output, self.generations)

    @cached_property
    def descent(self) -> Sequence[Edge]:
        """The edges between these individuals."""
        names = {one.node for one in self.individuals}
        return [edge for edge in edges_of(self.individuals) if edge["from"] in names and edge["to"] in names]

    def individual(self, name: str) -> Individual:
        if found := next((one for one in self.individuals if one.node == name), None):
            return found
        raise OutputError(f"{self.folder} has no individual {name!a}; individuals.jsonl has the names")

    @cached_property
    def reflector_calls(self) -> Sequence[ReflectorCall]:
        return [ReflectorCall.read(path) for path in sorted(self.output.prompts.glob("*.txt"))]

    @cached_property
    def report(self) -> ReportFile | None:
        """What was shown, computed from the measurements (`book`); None for a run that has not ended."""
        if not self.book.winner or not self.output.answers.exists():
            return None
        goal, margin, seed, whole = (self.values[name] for name in ("goal", "margin", "seed", "whole"))
        return report_of(self.run, self.book, goal, margin, seed, whole=whole)

    @property
    def front(self) -> tuple[ReportedSystem, ...]:
        """The members of the front, those that passed and the winner, the fewest tokens first; none before the end."""
        return () if self.report is None else front_file(self.report).members

    @cached_property
    def comparisons(self) -> tuple[Comparison, ...]:
        """The answers of the plain model and of the winner or else the contender, a comparison for each set."""
        return self._read("answers.json", tuple[Comparison, ...]) or ()

    @cached_property
    def collection(self) -> CollectionFile | None:
        """What a finished collection has found; None for other kinds of runs."""
        return read_collection(self.folder, self.settings) if self.kind == COLLECT else None

    @cached_property
    def best_deltas(self) -> Mapping[str, float] | None:
        """By cluster: those of the best individual so far, by fitness; None before the first generation."""
        return self._read("deltas_best.json", dict[str, Delta])

    def _read(self, name: str, kind: type[T]) -> T | None:
        return find_json(self.folder / name, kind)


@dataclass(frozen=True)
class ReflectorCall:
    """One call of the reflector; `candidate` is for example "g3_child1", "" for a call about the clusters."""

    file: str
    candidate: str
    title: str
    provider: str
    user: str
    reply: str

    @classmethod
    def read(cls, path: Path) -> ReflectorCall:
        """The parts of a file of reflector_prompts (`tasks.openai.calls` writes it)."""
        head, _, rest = read_output_text(path).partition("===== system =====\n")
        _, _, rest = rest.partition("\n===== user =====\n")
        user, _, reply = rest.partition("\n===== reply =====\n")
        title, *others = [line.removeprefix("# ") for line in head.splitlines()] or [""]
        provider = next((line.partition(": ")[2] for line in others if line.startswith("answered by: ")), "")
        found = re.search(r"_(g\d+_(?:pop\d+|child\d+))(?:_pre|_mut)?(?:_attempt\d+)?\.txt$", path.name)
        return cls(path.name, found[1] if found else "", title, provider, user, reply.rstrip("\n"))
