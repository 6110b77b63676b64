"""history.jsonl: whole generations are read, and what is none is named by its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchestrator.history import read_history, write_history
from orchestrator.runs.folder import OutputError, OutputFolder

GENERATION: dict[str, Any] = {
    "generation": 0, "best": 0.5, "mean": 0.5, "best_ever": 0.5, "offspring": [],
    "population": [{"node": "g0_pop0", "fitness": 0.5, "shortness": 0.5, "correctness": 0.5, "mean_tokens": 9.0}],
    "evaluations": {"computed": 1, "cached": 0, "carried": 0}, "seconds": {"wall": 1.0},
    "tokens": {"target": 1, "prompt": 1, "cached": 0, "completion": 1}, "calls": 3, "cost_usd": None,
}  # fmt: skip


def test_what_is_written_is_read_again_and_a_last_line_that_was_cut_short_is_left_out(tmp_path: Path) -> None:
    output, generations = OutputFolder(tmp_path), [GENERATION, {**GENERATION, "generation": 1}]
    assert read_history(output.history) == []
    write_history(output, generations)
    assert read_history(output.history) == generations
    with output.history.open("a") as file:
        file.write('{"generation": 2, "best"')
    assert read_history(output.history) == generations


def test_a_line_that_is_no_generation_is_named(tmp_path: Path) -> None:
    output = OutputFolder(tmp_path)
    write_history(output, [GENERATION, {**GENERATION, "population": []}, GENERATION])
    with pytest.raises(OutputError, match=r"history\.jsonl: line 2 is no generation"):
        read_history(output.history)
