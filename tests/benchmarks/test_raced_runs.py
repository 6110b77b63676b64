"""Racing against full evaluation, from the figures of searches on a card."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import pytest

from benchmarks import figures
from benchmarks.gpu.raced import main, points
from benchmarks.gpu.search import asked_questions
from benchmarks.racing import compare

FULL = {"asked": [400, 400, 400], "best_on_validation": [1.0, 1.5, 2.0]}


def test_a_stopped_candidate_counts_with_what_it_was_asked() -> None:
    first, stopped = {"generation": 0}, {"generation": 0, "stopped": {"answered": 20, "of": 100}}
    assert asked_questions([first, stopped, {"generation": 1}], 100) == [120, 100]


def test_each_search_is_charged_until_it_had_nine_tenths_of_the_gain() -> None:
    # Given a goal of 2 ** 0.9 = 1.87, which racing reaches in its fourth generation
    raced = {"asked": [200, 100, 100, 100], "best_on_validation": [1.0, 1.4, 1.8, 1.9]}
    found = compare(points(FULL), points(raced))
    assert (found["full"], found["raced"], found["same"]) == (1200, 500, 400 / 1200)
    assert found["ratio"] == pytest.approx(500 / 1200)
    never = compare(points(FULL), points({"asked": [200, 100, 100], "best_on_validation": [1.0, 1.4, 1.8]}))
    assert math.isinf(never["raced"]) and math.isinf(never["ratio"])


def test_without_a_gain_by_full_evaluation_there_is_no_goal() -> None:
    with pytest.raises(ValueError, match="gained nothing on validation"):
        compare([(100, 0.8), (200, 0.9)], [(50, 1.0), (100, 1.5)])


def test_what_was_validated_before_counts_where_a_later_best_is_worse() -> None:
    worse_later = {"asked": [400, 400, 400], "best_on_validation": [1.0, 2.0, 1.2]}
    found = compare(points(worse_later), points({"asked": [100, 100, 100], "best_on_validation": [1.9, 1.0, 1.0]}))
    assert (found["full"], found["raced"]) == (800, 100)


def test_only_seeds_that_both_have_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(figures, "FOLDER", tmp_path)
    monkeypatch.setattr(sys, "argv", ["raced.py", "--result", "found"])
    document = tmp_path / "gpu_found.json"
    document.write_text(json.dumps({"runs": {"cma-1": FULL, "raced-2": FULL}}))
    with pytest.raises(SystemExit, match="no runs cma-N and raced-N of one seed"):
        main()
    document.write_text(json.dumps({"runs": {"cma-1": {"evaluations": []}, "raced-1": FULL}}))
    with pytest.raises(SystemExit, match="CONFIG_PATIENCE"):
        main()
    document.write_text(json.dumps({"runs": {"cma-1": FULL, "raced-1": FULL, "raced-2": FULL}}))
    assert main() == 0
    assert "median ratio 1.00" in capsys.readouterr().out
