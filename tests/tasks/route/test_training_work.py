"""What the child of a training does, in the toy world: the same bytes however often it is interrupted."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from training_values import TRAINING

from tasks.route.child import evaluate, evaluation_batches, find_bases, run_trajectory, trajectory_settings

WORLD = str(Path(__file__).parents[3] / "examples/toy_world.py") + ":toy_world"


@pytest.fixture(autouse=True)
def threads() -> Any:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture
def given(tmp_path: Path) -> dict[str, Any]:
    """What the worker gives for two steps with a checkpoint after each."""
    inputs = {
        "target": {"device": "cpu"},
        "world": WORLD,
        "model": {"targets": ["first", "second"]},
        "training": TRAINING,
        "routing": {"splits": ["real", "ceiling"], "dims": 1, "reduction": "mean", "refresh_every": 1},
        "evaluation": {"samples": 8, "seed": 0},
    }
    return {
        "inputs": inputs,
        "trajectory": "shared",
        "seed": 3,
        "data": {},
        "teacher": [],
        "model_folder": "toy",
        "bases_folder": str(tmp_path),
        "begin": "",
        "folder": str(tmp_path),
    }


def test_a_training_that_goes_on_ends_with_the_same_bytes(given: dict[str, Any], tmp_path: Path) -> None:
    # Given the bases, which are computed once
    assert [find_bases(given, ignore)["computed"] for _ in range(2)] == [2, 0]
    # When a training goes on with its first checkpoint
    told: list[dict[str, Any]] = []
    whole = run_trajectory(given, lambda **values: told.append(values))
    checkpoints = [values["checkpoint"] for values in told if "checkpoint" in values]
    assert [Path(path).name for path in checkpoints] == ["step1", "step2"]
    again = run_trajectory({**given, "begin": checkpoints[0]}, ignore)
    # Then all is as in the undisturbed one
    assert json.dumps(again) == json.dumps(whole)
    last = Path(checkpoints[1]).read_bytes()
    assert hashlib.sha256(last).hexdigest() == whole["sha256"]
    assert [row["step"] for row in whole["rows"]] == [0, 1]


def test_what_is_evaluated_of_a_checkpoint_is_the_same_however_often_it_is_interrupted(
    given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a checkpoint, and evaluations of two modes, of which two go together
    monkeypatch.setattr("tasks.route.child.EVALUATED_ROWS", 16)
    run_trajectory(given, ignore)
    names = (("real", "off"), ("untrained", "off"), ("real", "on"), ("none", "off"))
    asked = [
        {"key": f"{name}/{mode}/{quarantine}", "deployed": name, "mode": mode, "quarantine": quarantine}
        for mode in ("B", "none")
        for name, quarantine in names
    ]
    begun = {**given, "begin": str(Path(given["folder"]) / "step2"), "evaluations": asked}
    assert [len(batch) for batch in evaluation_batches(asked, 8)] == [2, 2, 2, 2]
    assert [len(batch) for batch in evaluation_batches(asked[:5], 20)] == [1, 1, 1, 1, 1]
    # When all is evaluated
    told, whole = evaluated(begun, [])
    assert told == [0, 2, 4, 6, 8] and list(whole) == [each["key"] for each in asked]
    assert all(len(each["solved"]) == len(each["hacked"]) == 8 for each in whole.values())
    # Then what is deployed of equal knobs is equal, though it was sampled beside others
    assert whole["real/B/on"] == whole["none/B/off"] and whole["real/B/off"] != whole["untrained/B/off"]
    # and only batches with something missing are computed again, with the same results
    told, rest = evaluated(begun, [each["key"] for each in asked[:5]])
    assert told == [4, 6, 8] and rest == {key: whole[key] for key in list(whole)[4:]}
    assert evaluated(begun, list(whole)) == ([8], {})


def evaluated(given: dict[str, Any], answered: list[str]) -> tuple[list[int], dict[str, Any]]:
    """How far the evaluation said that it was, and its results by key."""
    told: list[int] = []
    results: dict[str, Any] = {}

    def report(**values: Any) -> None:
        results.update(values.get("results", {}))
        told.extend([values["done"]] if values.get("stage") == "evaluate" else [])

    evaluate({**given, "answered": answered}, report)
    return told, results


def test_the_settings_of_each_trajectory(given: dict[str, Any]) -> None:
    names = ("shared", "plain", "erase", "ablated")
    kinds = {name: trajectory_settings({**given, "trajectory": name}) for name in names}
    assert {name: (found.kind, found.splits) for name, found in kinds.items()} == {
        "shared": ("shared", ("real", "ceiling")),
        "plain": ("shared", ()),
        "erase": ("erase", ()),
        "ablated": ("shared", ("real",)),
    }
    assert dataclasses.asdict(kinds["shared"].adam)["rate"] == 0.05


def ignore(**values: Any) -> None:
    """Nobody listens."""
