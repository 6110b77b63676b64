"""Lines of history.jsonl and nodes of the tree as records, with and without the parts that not every run has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator.evolution_results import LineageNode, generation_result, individual_result
from orchestrator.output import OutputError

NODE: LineageNode = {
    "id": "g1_child0_mut", "generation": 1, "fitness": 0.5, "mean_tokens": 40.0, "correctness": 0.75, "elite": False,
    "target": "3",
}  # fmt: skip


def first_line(run: Path) -> dict[str, Any]:
    line: dict[str, Any] = json.loads((run / "history.jsonl").read_text().splitlines()[0])
    return line


def test_a_line_of_an_older_file_says_what_it_has(finished_run: Path) -> None:
    line = first_line(finished_run)
    whole = generation_result(Path("history.jsonl"), line)
    assert whole.population == tuple(one["node"] for one in line["population"])
    assert whole.evaluations.computed == line["evaluations"]["computed"]
    older = {name: value for name, value in line.items() if name not in ("answered", "validation", "settings_changed")}
    found = generation_result(Path("history.jsonl"), older)
    assert (found.answered, found.settings_changed) == ({}, {})
    assert (found.best, found.seconds) == (whole.best, whole.seconds)


def test_a_stage_without_seconds_is_named_with_its_file_and_generation(finished_run: Path) -> None:
    line = first_line(finished_run)
    line["seconds"] |= {"answer": "long"}
    with pytest.raises(OutputError, match=r"^history\.jsonl: generation 0: seconds\.answer"):
        generation_result(Path("history.jsonl"), line)


def test_an_individual_has_the_deltas_of_its_record() -> None:
    bare = individual_result(NODE, None)
    assert (bare.name, bare.stage, bare.target, bare.deltas) == ("g1_child0_mut", "mut", "3", {})
    record: Any = {"node": "g1_child0_mut", "deltas": {"0": 1.5}, "scratchpad": "s"}
    found = individual_result(NODE, record)
    assert (found.deltas, found.scratchpad, found.skip_reason) == ({"0": 1.5}, "s", "")
