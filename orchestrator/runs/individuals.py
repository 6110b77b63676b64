"""`individuals.jsonl`: the deltas and the scratchpad of every evaluation of a run, one JSON object a line.

    {"node": "g3_child1_pre", "generation": 3, "target": null, "fitness": 0.61, "mean_tokens": 34.2,
     "correctness": 0.7, "deltas": {"0": 1.5, ...}, "scratchpad": "..."}

Each generation is appended when it has ended.  A line also says why a reply of the reflector could not be used:
"merge_fallback" for the merge before the evaluation, "skip_reason" for the mutation that should have followed it.  Of
an individual that left a race, "stopped" says after how many of how many questions; its fitness is projected.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from orchestrator.optimisers.generation import Evaluated, Generation
from orchestrator.optimisers.individual import list_to_deltas
from orchestrator.output import write_output, writing
from tasks.files import read_limited
from tasks.limits import INDIVIDUALS_BYTES
from tasks.validation import Delta, check_value


class IndividualsFile:
    """The file at `path`; deltas are named by `cluster_ids`, in canonical order."""

    def __init__(self, path: Path, cluster_ids: Sequence[str]) -> None:
        self._path = path
        self._cluster_ids = tuple(cluster_ids)

    def keep_before(self, generation: int) -> None:
        """Remove this generation, later ones, and a last line that a kill cut short.  Raises: OutputNotWritable."""
        if self._path.exists():
            with writing(self._path):
                complete = self._path.read_bytes().rpartition(b"\n")[0]
            kept = [line for line in complete.split(b"\n") if line and _generation(line) < generation]
            write_output(self._path, b"".join(line + b"\n" for line in kept))

    def deltas_of(self, node: str) -> tuple[float, ...] | None:
        """The deltas of an evaluation, in canonical order; None where the file has none of this name.

        Raises: OSError, ValueError for a file that cannot be read.
        """
        text = read_limited(self._path, INDIVIDUALS_BYTES).decode() if self._path.exists() else ""
        lines = [json.loads(line) for line in text.splitlines()]
        found = [line["deltas"] for line in lines if line["node"] == node]
        if not found:
            return None
        deltas = check_value(dict[str, Delta], found[-1], "deltas")
        return tuple(float(deltas[cluster]) for cluster in self._cluster_ids)

    def append(self, generation: Generation) -> None:
        """Add the evaluations of a generation.  Raises: OutputNotWritable."""
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
    """Why replies of the reflector were unusable, and where it left a race; empty where neither happened."""
    reasons = {"merge_fallback": evaluated.merge_fallback, "skip_reason": evaluated.skip_reason}
    return {name: reason for name, reason in reasons.items() if reason} | stop_record(evaluated)


def stop_record(evaluated: Evaluated) -> dict[str, Any]:
    """After how many of how many questions it left a race; empty where it answered all."""
    if evaluated.stopped is None:
        return {}
    answered, total = evaluated.stopped
    return {"stopped": {"answered": answered, "of": total}}


def _generation(line: bytes) -> int:
    """The generation of a line.  A line that cannot be read counts as one to remove."""
    try:
        return int(json.loads(line)["generation"])
    except (ValueError, KeyError, TypeError):
        return 2**31
