"""Data frames of a run, with the figures of its files."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from orchestrator import OutputError, open_run


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_history_has_a_row_for_each_generation(finished_run: Path) -> None:
    frame, recorded = open_run(finished_run).history(), lines(finished_run / "history.jsonl")
    assert frame.index.name == "generation" and list(frame.index) == [0, 1]
    assert list(frame["best_ever"]) == [line["best_ever"] for line in recorded]
    assert list(frame["computed"]) == [line["evaluations"]["computed"] for line in recorded]
    assert list(frame["seconds_wall"]) == [line["seconds"]["wall"] for line in recorded]
    assert list(frame["tokens_target"]) == [line["tokens"]["target"] for line in recorded]


def test_lineage_has_a_row_for_each_individual_with_its_parents_and_deltas(finished_run: Path) -> None:
    frame, recorded = open_run(finished_run).lineage(), lines(finished_run / "individuals.jsonl")
    assert list(frame.index) == [line["node"] for line in recorded]
    deltas = frame[[f"delta_{cluster}" for cluster in range(12)]]
    assert deltas.to_numpy().tolist() == [list(line["deltas"].values()) for line in recorded]
    assert list(frame["scratchpad"]) == [line["scratchpad"] for line in recorded]
    edges = json.loads((finished_run / "evolution_tree.json").read_text())["edges"]
    mutated = next(edge for edge in edges if edge["kind"] == "mutation")
    assert frame.loc[mutated["to"], "parents"] == (mutated["from"],)
    assert frame.loc["g0_pop0", "parents"] == ()


def test_answers_are_side_by_side(finished_run: Path) -> None:
    frame = open_run(finished_run).answers()
    comparisons = json.loads((finished_run / "answers.json").read_text())
    assert len(frame) == sum(len(one["before"]) for one in comparisons) == 22
    assert frame["set"].nunique() == 3
    first = comparisons[0]["after"][0]
    [row] = frame[(frame["set"] == comparisons[0]["name"]) & (frame.index == first["example"])].to_dict("records")
    assert (row["text_after"], row["tokens_after"], row["is_correct_after"]) == (
        first["text"],
        first["tokens"],
        first["is_correct"],
    )


def test_a_run_without_results_has_empty_frames(finished_run: Path, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_bytes((finished_run / "run.json").read_bytes())
    run = open_run(tmp_path)
    assert [len(frame) for frame in (run.history(), run.lineage(), run.answers())] == [0, 0, 0]
    with pytest.raises(OutputError, match="holds no run"):
        open_run(tmp_path / "nowhere")


def test_without_pandas_the_typed_results_are_there(finished_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    run = open_run(finished_run)
    assert len(run.generations) == 2
    with pytest.raises(ImportError, match=r"data frames need pandas: pip install 'whetstone\[pandas\]'"):
        run.history()
