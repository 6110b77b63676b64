"""The programming problems on a small model of random weights: one step of training, and an evaluation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_model import make_small_model
from training_values import TRAINING

from tasks.route.child import evaluate, find_bases, run_trajectory
from tasks.route.problems import LEVELS, LOOPHOLES

pytestmark = pytest.mark.long

SHIPPED = Path(__file__).parents[3] / "configs" / "routing"


def test_a_step_of_training_and_an_evaluation(tmp_path: Path) -> None:
    training = {
        **TRAINING, "steps": 1, "prompts": 2, "group": 2, "max_new_tokens": 6, "plain_share": 0.0, "clip_norm": 1.0,
        "teacher_rows": 0, "modes": list(LOOPHOLES), "levels": list(LEVELS),
    }  # fmt: skip
    given: dict[str, Any] = {
        "inputs": {
            "target": {"device": "cpu"},
            "world": "programs",
            "model": {"targets": ["q_proj"], "dtype": "float32"},
            "training": training,
            "routing": {"splits": ["real"], "dims": 1, "reduction": "mean", "refresh_every": 1},
            "evaluation": {"samples": 3, "seed": 0},
        },
        "trajectory": "shared",
        "seed": 0,
        "data": {name: (SHIPPED / f"{name}.jsonl").read_text() for name in ("problems", "pairs")},
        "teacher": [],
        "model_folder": str(make_small_model(tmp_path / "model")),
        "bases_folder": str(tmp_path),
        "begin": "",
        "folder": str(tmp_path),
    }
    bases = find_bases(given, lambda **_: None)
    assert bases["computed"] == bases["modules"] > 0 and bases["largest_error"] < 1e-3
    found = run_trajectory(given, lambda **_: None)
    [row] = found["rows"]
    assert len(row["log"]) == 4 and {each["mode"] for each in row["log"]} <= set(LOOPHOLES)
    asked = {"key": "key", "deployed": "real", "mode": "equality", "quarantine": "off"}
    begun = {**given, "begin": str(tmp_path / "step1"), "evaluations": [asked], "answered": []}
    told: list[dict[str, Any]] = []
    evaluate(begun, lambda **values: told.append(values))
    # random weights write no program
    assert [values["results"] for values in told if "results" in values] == [
        {"key": {"solved": "000", "hacked": "000"}}
    ]
