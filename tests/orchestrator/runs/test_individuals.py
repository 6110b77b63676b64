"""individuals.jsonl holds every evaluation once, whatever was killed on the way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from orchestrator.optimisers.generation import Evaluated, Generation, Genome
from orchestrator.runs.individuals import IndividualsFile
from tasks.models import Score

SCORE = Score(0.5, 0.4, 0.6, 12.0)


def generation(number: int) -> Generation:
    genome = Genome((0.0, 1.5), "learnt\nmuch")
    pre = Evaluated(f"g{number}_child0_pre", genome, SCORE, merge_fallback="the merge was cut")
    mut = Evaluated(f"g{number}_child0_mut", Genome((0.0, -2.0), "more"), SCORE, 1)
    other = Evaluated(f"g{number}_child1_pre", genome, SCORE, skip_reason="refused")
    return Generation(number, (Evaluated(f"g{number}_pop0", genome, SCORE),), (pre, mut, other))


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_each_evaluation_has_its_deltas_and_scratchpad(tmp_path: Path) -> None:
    file = IndividualsFile(tmp_path / "individuals.jsonl", ("0", "1"))
    file.append(generation(0))
    pop, pre, mut, other = lines(tmp_path / "individuals.jsonl")
    assert pop == {
        "node": "g0_pop0", "generation": 0, "target": None, "fitness": 0.5,
        "mean_tokens": 12.0, "correctness": 0.6,
        "deltas": {"0": 0.0, "1": 1.5}, "scratchpad": "learnt\nmuch",
    }  # fmt: skip
    assert (pre["node"], pre["deltas"]["1"], pre["merge_fallback"]) == ("g0_child0_pre", 1.5, "the merge was cut")
    assert (mut["node"], mut["deltas"]["1"], mut["scratchpad"], mut["target"]) == ("g0_child0_mut", -2.0, "more", "1")
    assert other["skip_reason"] == "refused" and "skip_reason" not in pre and "merge_fallback" not in mut


def test_a_resumed_generation_is_written_once(tmp_path: Path) -> None:
    """Given a run that was killed while it wrote generation 2, resuming it keeps generations 0 and 1."""
    path = tmp_path / "individuals.jsonl"
    file = IndividualsFile(path, ("0", "1"))
    for number in range(3):
        file.append(generation(number))
    before = path.read_bytes()
    path.write_bytes(before[:-20])
    resumed = IndividualsFile(path, ("0", "1"))
    resumed.keep_before(2)
    assert [line["generation"] for line in lines(path)] == [0] * 4 + [1] * 4
    resumed.append(generation(2))
    assert path.read_bytes() == before


def test_a_new_run_has_no_file_to_keep(tmp_path: Path) -> None:
    IndividualsFile(tmp_path / "individuals.jsonl", ("0",)).keep_before(0)
    assert list(tmp_path.iterdir()) == []
