"""What the child of a training does: the same bytes however often it is interrupted."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from training_values import given_values

from tasks.route.child import evaluate, evaluation_batches, find_bases, run_trajectory, trajectory_settings

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def threads() -> Any:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def ignore(**values: Any) -> None:
    """Nobody listens."""


def test_a_training_that_goes_on_ends_with_the_same_bytes_and_is_evaluated(confinement: None, tmp_path: Path) -> None:
    # Given the bases, which are computed once
    given = given_values(tmp_path)
    found = [find_bases(given, ignore) for _ in range(2)]
    assert found[0] == found[1] and found[0]["modules"] == len(list(tmp_path.glob("*.safetensors"))) == 2
    # When a training goes on with its first checkpoint
    told: list[dict[str, Any]] = []
    whole = run_trajectory(given, lambda **values: told.append(values))
    checkpoints = [values["checkpoint"] for values in told if "checkpoint" in values]
    assert [Path(path).name for path in checkpoints] == ["step1", "step2"]
    again = run_trajectory({**given, "begin": checkpoints[0]}, ignore)
    # Then all is as in the undisturbed one
    assert json.dumps(again) == json.dumps(whole)
    assert hashlib.sha256(Path(checkpoints[1]).read_bytes()).hexdigest() == whole["sha256"]
    assert [(row["step"], row["teacher_rows"] > 0, row["live_rows"] > 0) for row in whole["rows"]] == [
        (0, True, True),
        (1, False, False),
    ]
    # and an evaluation computes again only the batches of which something is missing
    asked = [
        {"key": f"{name}/{mode}/{on}", "deployed": name, "mode": mode, "quarantine": on}
        for mode in ("equality", "none")
        for name, on in (("real", "off"), ("untrained", "off"), ("real", "on"))
    ]
    begun = {**given, "begin": checkpoints[1], "evaluations": asked}
    for answered, rest in (([], 6), (["real/equality/off", "untrained/equality/off", "real/equality/on"], 3)):
        told.clear()
        evaluate({**begun, "answered": answered}, lambda **values: told.append(values))
        found = [values["results"] for values in told if "results" in values]
        results = {key: value for part in found for key, value in part.items()}
        assert list(results) == [each["key"] for each in asked[6 - rest :]]
        assert set(map(str, results.values())) == {str({"solved": "000", "hacked": "000"})}  # they write no program


def test_what_is_sampled_together_has_one_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.route.child.EVALUATED_ROWS", 16)
    asked = [{"key": f"{mode}{number}", "mode": mode} for mode in ("B", "none") for number in range(4)]
    assert [len(batch) for batch in evaluation_batches(asked, 8)] == [2, 2, 2, 2]
    assert [len(batch) for batch in evaluation_batches(asked[:5], 20)] == [1, 1, 1, 1, 1]


def test_the_settings_of_each_trajectory(tmp_path: Path) -> None:
    given = given_values(tmp_path)
    names = ("shared", "plain", "erase", "ablated")
    kinds = {name: trajectory_settings({**given, "trajectory": name}) for name in names}
    assert {name: (found.kind, found.splits) for name, found in kinds.items()} == {
        "shared": ("shared", ("real", "ceiling")),
        "plain": ("shared", ()),
        "erase": ("erase", ()),
        "ablated": ("shared", ("real",)),
    }
    assert kinds["shared"].adam.rate == 0.05
