"""individuals.jsonl holds every evaluation once, whatever was killed on the way."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.evolve.individuals import IndividualsFile, individual_of, read_individuals
from orchestrator.evolve.optimisers.base import Evaluated, Generation, Genome
from orchestrator.evolve.systems import Individual, Point
from orchestrator.runs.folder import OutputError
from tasks.records import Score

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
    file.append(generation(0), "80 words")
    pop, pre, mut, other = lines(tmp_path / "individuals.jsonl")
    assert pop == {
        "node": "g0_pop0", "generation": 0, "arm": "80 words", "target": None, "fitness": 0.5,
        "mean_tokens": 12.0, "correctness": 0.6,
        "deltas": {"0": 0.0, "1": 1.5}, "scratchpad": "learnt\nmuch",
    }  # fmt: skip
    assert (pre["node"], pre["deltas"]["1"], pre["merge_fallback"]) == ("g0_child0_pre", 1.5, "the merge was cut")
    assert (mut["node"], mut["deltas"]["1"], mut["scratchpad"], mut["target"]) == ("g0_child0_mut", -2.0, "more", "1")
    assert other["skip_reason"] == "refused" and "skip_reason" not in pre and "merge_fallback" not in mut
    # The choice reads the same: the arm, and the deltas in the order of the clusters.
    read = [individual_of(record) for record in read_individuals(tmp_path / "individuals.jsonl")]
    assert read[2] == Individual("g0_child0_mut", "80 words", (0.0, -2.0), Point(12.0, 0.6))


def test_a_resumed_generation_is_written_once(tmp_path: Path) -> None:
    """Given a run that was killed while it wrote generation 2, resuming it keeps generations 0 and 1."""
    path = tmp_path / "individuals.jsonl"
    file = IndividualsFile(path, ("0", "1"))
    for number in range(3):
        file.append(generation(number), "80 words")
    before = path.read_bytes()
    path.write_bytes(before[:-20])
    resumed = IndividualsFile(path, ("0", "1"))
    resumed.keep_before(2)
    assert [line["generation"] for line in lines(path)] == [0] * 4 + [1] * 4
    resumed.append(generation(2), "80 words")
    assert path.read_bytes() == before


DAMAGED = [b"\xff\xfe", b"{}", b'{"node": "n", "generation": 1e999}']


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_line_is_named_and_the_file_stays(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "individuals.jsonl"
    file = IndividualsFile(path, ("0", "1"))
    file.append(generation(0), "80 words")
    path.write_bytes(content := path.read_bytes() + damage + b"\n" + path.read_bytes())
    reads: list[Callable[[], object]] = [
        lambda: file.keep_before(1), lambda: file.deltas_of("g0_pop0"), lambda: read_individuals(path),
    ]  # fmt: skip
    for read in reads:
        with pytest.raises(OutputError, match=r"individuals.jsonl: line 5 is no individual"):
            read()
    assert path.read_bytes() == content
