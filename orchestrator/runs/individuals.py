"""`individuals.jsonl`: the deltas and the scratchpad of every evaluation of a run, one JSON object a line.

    {"node": "g3_child1_pre", "generation": 3, "target": null, "fitness": 0.61, "mean_tokens": 34.2,
     "correctness": 0.7, "deltas": {"0": 1.5, ...}, "scratchpad": "..."}

Each generation is appended when it has ended.  A line also says why a reply of the reflector could not be used:
"merge_fallback" for the merge before the evaluation, "skip_reason" for the mutation that should have followed it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, NotRequired

from pydantic import Field, FiniteFloat
from typing_extensions import TypedDict

from orchestrator.optimisers.generation import Evaluated, Generation
from orchestrator.optimisers.individual import list_to_deltas
from orchestrator.output import OutputError, write_output, writing
from tasks.validation import Delta, InvalidData, parse_json

REMEDY = "remove the file to go on without its record"


class IndividualRecord(TypedDict):
    """A line of individuals.jsonl: what is read of it again.  The names of deltas are whole numbers."""

    node: str
    generation: int
    deltas: dict[Annotated[str, Field(pattern=r"^[0-9]{1,6}$")], Delta]
    fitness: FiniteFloat
    mean_tokens: FiniteFloat
    correctness: FiniteFloat
    scratchpad: NotRequired[str]
    skip_reason: NotRequired[str]
    merge_fallback: NotRequired[str]


def read_individuals(path: Path) -> Iterator[tuple[bytes, IndividualRecord]]:
    """The lines of the file, and what each holds; none where there is no file.

    A last line that a kill cut short is left out.
    """
    try:
        whole, _, _ = path.read_bytes().rpartition(b"\n")
    except FileNotFoundError:
        return
    except OSError as error:
        raise OutputError(f"{path} cannot be read: {error.strerror or error}") from None
    for number, line in enumerate(whole.split(b"\n"), start=1):
        if not line:
            continue
        try:
            yield line, parse_json(IndividualRecord, line)
        except InvalidData as error:
            raise OutputError(f"{path}: line {number} is no individual: {error}; {REMEDY}") from None


class IndividualsFile:
    """The file at `path`; deltas are named by `cluster_ids`, in canonical order."""

    def __init__(self, path: Path, cluster_ids: Sequence[str]) -> None:
        self._path = path
        self._cluster_ids = tuple(cluster_ids)

    def keep_before(self, generation: int) -> None:
        """Remove this generation, later ones, and a last line that a kill cut short."""
        if self._path.exists():
            kept = [line for line, record in read_individuals(self._path) if record["generation"] < generation]
            write_output(self._path, b"".join(line + b"\n" for line in kept))

    def deltas_of(self, node: str) -> tuple[float, ...] | None:
        """The deltas of an evaluation, in canonical order; None where the file has none of this name."""
        found = [record["deltas"] for _, record in read_individuals(self._path) if record["node"] == node]
        if not found:
            return None
        if sorted(found[-1]) != sorted(self._cluster_ids):
            raise OutputError(f"{self._path}: {node} does not have one delta for each cluster; {REMEDY}")
        return tuple(float(found[-1][cluster]) for cluster in self._cluster_ids)

    def append(self, generation: Generation) -> None:
        """Add the evaluations of a generation."""
        evaluations = (*generation.population, *generation.offspring)
        lines = [json.dumps(self._line(generation.number, one), ensure_ascii=False) for one in evaluations]
        with writing(self._path), self._path.open("ab") as file:
            file.write("".join(f"{line}\n" for line in lines).encode())
            file.flush()
            os.fsync(file.fileno())

    def _line(self, generation: int, evaluated: Evaluated) -> dict[str, Any]:
        return {
            "node": evaluated.node,
            "generation": generation,
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
