"""Searches on a card: a misfit is refused before a server starts; a later call's runs are added to those there."""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path

import pytest

from benchmarks import figures
from benchmarks.gpu.search import late_over_early, main, runs_before


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(figures, "FOLDER", tmp_path)
    return tmp_path


def options(**changed: object) -> argparse.Namespace:
    return argparse.Namespace(**{"result": "search", "model": "/models/qwen", "rows": 100, "cap": 512, **changed})


def test_runs_and_commands_of_earlier_calls_are_kept(folder: Path) -> None:
    assert runs_before(options()).runs == {}
    about = {"when": "today", "command": "second", "before": [{"when": "yesterday", "command": "first"}]}
    kept = {**about, "model": "qwen", "rows": 100, "cap": 512, "runs": {"cma-1": {"report": {}}}}
    (folder / "gpu_search.json").write_text(json.dumps(kept))
    found = runs_before(options())
    assert list(found.runs) == ["cma-1"]
    assert [one["command"] for one in found.commands] == ["first", "second"]
    for changed in ({"rows": 400}, {"cap": 256}, {"model": "/models/other"}):
        with pytest.raises(SystemExit, match="name another --result"):
            runs_before(options(**changed))


def test_a_judge_by_numbers_that_a_setting_names_is_refused_before_a_server_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "reports.jsonl"
    data.write_text(json.dumps({"answer": "the pension plan"}) + "\n")
    arguments = f"--model embedded --engine embedded --data {data} --folder {tmp_path / 'work'} --runs cma:1"
    monkeypatch.setattr(sys, "argv", ["search.py", *arguments.split(), "--set", "JUDGE=exact_number"])
    with pytest.raises(SystemExit, match=r"^reports.jsonl: 1 of 1 right answers have no number"):
        main()


def test_a_run_whose_answers_all_came_from_the_store_has_no_rate_to_compare() -> None:
    assert math.isnan(late_over_early([0.0, 0.0, 0.0]))
    assert late_over_early([9.0, 100.0, 80.0]) == 0.8
