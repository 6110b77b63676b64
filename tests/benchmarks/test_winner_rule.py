"""Which rule lets a finalist win over the start, from the validation answers of made-up runs."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from measured_systems import EVOLVED, PLAIN, system

from benchmarks.run_answers import Answers
from benchmarks.winner_rule import one_draw, start_of
from orchestrator.output import OutputFolder
from orchestrator.report.measurements import measurement_lines
from orchestrator.report.systems import MeasuredSystem
from orchestrator.runs.vectors import VECTORS_FILE, Steered, Vectors

START = system("end of turn alone", "vector", 0.6, seed=4)


def run_folder(folder: Path, *finalists: MeasuredSystem) -> Path:
    (folder / "measurements.jsonl").write_text(measurement_lines([PLAIN, START, *finalists]))
    return folder


def write_vectors(folder: Path, vectors: Vectors) -> None:
    OutputFolder(folder).write_state(VECTORS_FILE, asdict(vectors))


def winners(folder: Path) -> dict[str, bool]:
    found = one_draw(Answers(folder, "validation"), START.name, np.random.default_rng(1), choose=200)
    return {rule: bool(figures[0]) for rule, figures in found.items()}


def test_a_finalist_that_is_clearly_better_wins_by_every_rule_but_never(tmp_path: Path) -> None:
    won = winners(run_folder(tmp_path, EVOLVED))
    assert not won.pop("never") and all(won.values())


def test_a_finalist_that_is_clearly_worse_wins_by_no_rule(tmp_path: Path) -> None:
    assert not any(winners(run_folder(tmp_path, system("evolved 1", "evolved", 0.9))).values())


def test_the_choice_is_tested_on_the_questions_that_did_not_choose(tmp_path: Path) -> None:
    # given a finalist that is half as long as the plain model where it chooses, and wrong everywhere else
    order = np.random.default_rng(1).permutation(len(PLAIN.validation.examples))
    chooses = set(order[:200].tolist())
    right = tuple(is_right and index in chooses for index, is_right in enumerate(PLAIN.validation.correct))
    finalist = replace(EVOLVED, validation=replace(EVOLVED.validation, correct=right))
    # then it wins, and the other 100 questions show the loss
    results = one_draw(Answers(run_folder(tmp_path, finalist), "validation"), START.name, np.random.default_rng(1), 200)
    won, _, points, is_lost, _ = results["95 %, corrected"]
    assert (won, is_lost) == (1.0, 1.0) and points < -50


def test_the_start_is_the_vector_that_the_run_names(tmp_path: Path) -> None:
    one, other = Steered("none", (1.0,)), Steered("none", (2.0,))
    write_vectors(tmp_path, Vectors({"a": one, "b": other}, other))
    assert start_of(tmp_path) == "b"
    write_vectors(tmp_path, Vectors({"a": one}, Steered("none", (0.0,))))
    with pytest.raises(SystemExit, match="started from no vector"):
        start_of(tmp_path)
