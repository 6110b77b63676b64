"""individuals.jsonl and history.jsonl: each generation once, and what is damaged is named by its line."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from orchestrator.evolve.optimisers import Evaluated, Generation
from orchestrator.evolve.records import GenerationRecord, individuals_of, read_history, read_individuals
from orchestrator.report.statistics import Point
from orchestrator.runs.folder import OutputError, OutputFolder, append_lines, json_line
from orchestrator.settings.inputs import Genome
from tasks.records import Score

SCORE = Score(0.5, 0.4, 0.6, 12.0)
LINE: GenerationRecord = {
    "generation": 0, "arm": "plain", "best": 0.5, "mean": 0.5, "best_ever": 0.5, "offspring": [],
    "population": [{"node": "g0_pop0", "fitness": 0.5, "shortness": 0.5, "correctness": 0.5, "mean_tokens": 9.0}],
    "evaluations": {"computed": 1, "cached": 0, "carried": 0}, "seconds": {"wall": 1.0},
    "tokens": {"target": 1, "prompt": 1, "cached": 0, "completion": 1}, "calls": 3, "cost_usd": None,
}  # fmt: skip
WHOLE: GenerationRecord = {
    **LINE,
    "offspring": [{**LINE["population"][0], "node": f"g0_child{name}"} for name in ("0_pre", "0_mut", "1_pre")],
}
"""The line of a generation of four individuals."""


def lines(number: int) -> list[dict[str, Any]]:
    genome = Genome((0.0, 1.5), "learnt\nmuch")
    pre = Evaluated(f"g{number}_child0_pre", genome, SCORE, merge_fallback="the merge was cut")
    mut = Evaluated(f"g{number}_child0_mut", Genome((0.0, -2.0), "more"), SCORE, 1)
    other = Evaluated(f"g{number}_child1_pre", genome, SCORE, skip_reason="refused")
    found = Generation(number, (Evaluated(f"g{number}_pop0", genome, SCORE),), (pre, mut, other))
    return [dataclasses.asdict(one) for one in individuals_of(found, "80 words", ("0", "1"))]


def test_each_evaluation_has_its_deltas_and_scratchpad(tmp_path: Path) -> None:
    pop, pre, _, other = lines(0)
    assert pop == {
        "node": "g0_pop0", "generation": 0, "arm": "80 words", "target": None, "fitness": 0.5,
        "mean_tokens": 12.0, "correctness": 0.6,
        "deltas": {"0": 0.0, "1": 1.5}, "scratchpad": "learnt\nmuch", "parents": (), "place": None,
        "merge_fallback": "", "skip_reason": "",
    }  # fmt: skip
    assert (pre["merge_fallback"], other["skip_reason"]) == ("the merge was cut", "refused")
    # The choice reads the same: the arm, and the deltas in the order of the clusters.
    append_lines((output := OutputFolder(tmp_path)).individuals, lines(0))
    read = read_individuals(output, [WHOLE])[2]
    assert (read.node, read.arm, read.vector, read.target) == ("g0_child0_mut", "80 words", (0.0, -2.0), "1")
    assert read.point == Point(12.0, 0.6)


@pytest.mark.parametrize("damage", [b"\xff\xfe", b"{}", b'{"node": "n", "generation": 1e999}'])
def test_a_damaged_line_is_named_and_the_file_stays(tmp_path: Path, damage: bytes) -> None:
    append_lines(path := tmp_path / "individuals.jsonl", lines(0))
    path.write_bytes(content := path.read_bytes() + damage + b"\n" + path.read_bytes())
    with pytest.raises(OutputError, match=r"individuals.jsonl: line 5 is no individual"):
        read_individuals(OutputFolder(tmp_path), [WHOLE])
    assert path.read_bytes() == content


def test_a_history_that_was_cut_or_zeroed_is_named(tmp_path: Path) -> None:
    output = OutputFolder(tmp_path)
    assert read_history(output) == []
    second: GenerationRecord = {**LINE, "generation": 1}
    whole = json_line(LINE) + json_line(second)
    output.write("history.jsonl", whole)
    assert (read_history(output), read_history(output, 1)) == ([LINE, second], [LINE])
    damage = (whole[:-9], bytes(len(whole)), whole + b"{}", json_line({**LINE, "population": []}) + json_line(LINE))
    for damaged in damage:
        output.write("history.jsonl", damaged)
        with pytest.raises(OutputError, match=r"history\.jsonl: .* no generation"):
            read_history(output)
    # Where whole lines are missing, the saved state says so
    output.write("history.jsonl", json_line(LINE))
    with pytest.raises(OutputError, match=r"history\.jsonl has 1 of the 2 generations that evolution_state"):
        read_history(output, 2)


def test_individuals_that_are_missing_are_noticed_and_those_of_a_killed_generation_are_left_out(tmp_path: Path) -> None:
    path = (output := OutputFolder(tmp_path)).individuals
    append_lines(path, [*lines(0), *lines(1)[:2]])
    path.write_bytes(path.read_bytes()[:-9])
    assert [one.generation for one in read_individuals(output, [WHOLE])] == [0] * 4
    first, _, *rest = path.read_bytes().splitlines(keepends=True)
    in_its_place = first + first + b"".join(rest)
    for damaged in (path.read_bytes()[:500], b"", bytes(900), in_its_place):
        path.write_bytes(damaged)
        with pytest.raises(OutputError, match=r"individuals\.jsonl has . of the 4 individuals that history"):
            read_individuals(output, [WHOLE])
