"""`individuals.jsonl`: the deltas and the scratchpad of every evaluation of a run, one JSON object a line.

    {"node": "g3_child1_pre", "generation": 3, "arm": "two sentences", "target": null, "fitness": 0.61,
     "mean_tokens": 34.2, "correctness": 0.7, "deltas": {"0": 1.5, ...}, "scratchpad": "..."}

"arm" names the system prompt.  Each generation is appended when it has ended.  A line also says why a reply of the
reflector could not be used: "merge_fallback" for the merge before the evaluation, "skip_reason" for the mutation that
should have followed it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NotRequired, cast

from pydantic import Field, FiniteFloat
from typing_extensions import TypedDict

from orchestrator.evolve.optimisers.base import Evaluated, Generation, canonical_order, list_to_deltas
from orchestrator.evolve.systems import Individual, Point
from orchestrator.runs.folder import write_output
from orchestrator.runs.lines import append_lines, json_line, load_lines
from tasks.common.validation import Delta


class IndividualRecord(TypedDict):
    """A line of individuals.jsonl: what is read of it again.  The names of deltas are whole numbers."""

    node: str
    generation: int
    arm: str
    deltas: dict[Annotated[str, Field(pattern=r"^[0-9]{1,6}$")], Delta]
    fitness: FiniteFloat
    mean_tokens: FiniteFloat
    correctness: FiniteFloat
    scratchpad: NotRequired[str]
    skip_reason: NotRequired[str]
    merge_fallback: NotRequired[str]


def read_individuals(path: Path) -> list[IndividualRecord]:
    """What the lines of the file hold; none where there is no file.  A last line that a kill cut short is left out."""
    return cast("list[IndividualRecord]", load_lines(path, IndividualRecord, "individual"))


def individual_of(record: IndividualRecord) -> Individual:
    """What the choice must know of an evaluation."""
    deltas = tuple(float(record["deltas"][cluster]) for cluster in canonical_order(list(record["deltas"])))
    return Individual(record["node"], record["arm"], deltas, Point(record["mean_tokens"], record["correctness"]))


class IndividualsFile:
    """The file at `path`; deltas are named by `cluster_ids`, in canonical order."""

    def __init__(self, path: Path, cluster_ids: Sequence[str]) -> None:
        self._path = path
        self._cluster_ids = tuple(cluster_ids)

    def keep_before(self, generation: int) -> None:
        """Remove this generation, later ones, and a last line that a kill cut short."""
        if self._path.exists():
            kept = [record for record in read_individuals(self._path) if record["generation"] < generation]
            write_output(self._path, b"".join(map(json_line, kept)))

    def deltas_of(self, node: str) -> tuple[float, ...] | None:
        """The deltas of an evaluation, in canonical order; None where the file has none of this name."""
        found = [record["deltas"] for record in read_individuals(self._path) if record["node"] == node]
        return tuple(float(found[-1][cluster]) for cluster in self._cluster_ids) if found else None

    def append(self, generation: Generation, arm: str) -> None:
        """Add the evaluations of a generation."""
        evaluations = (*generation.population, *generation.offspring)
        append_lines(self._path, [self._line(generation.number, arm, one) for one in evaluations])

    def _line(self, generation: int, arm: str, evaluated: Evaluated) -> dict[str, Any]:
        return {
            "node": evaluated.node,
            "generation": generation,
            "arm": arm,
            "target": None if evaluated.target is None else self._cluster_ids[evaluated.target],
            "fitness": evaluated.score.fitness,
            "mean_tokens": evaluated.score.mean_tokens,
            "correctness": evaluated.score.correctness,
            "deltas": list_to_deltas(evaluated.genome.deltas, self._cluster_ids),
            "scratchpad": evaluated.genome.scratchpad,
            **notes_on(evaluated),
        }


def notes_on(evaluated: Evaluated) -> dict[str, Any]:
    """Why replies of the reflector were unusable; empty where none was."""
    reasons = {"merge_fallback": evaluated.merge_fallback, "skip_reason": evaluated.skip_reason}
    return {name: reason for name, reason in reasons.items() if reason}
