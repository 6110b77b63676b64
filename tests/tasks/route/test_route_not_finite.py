"""Gradients that are no numbers: a row trains nothing and is counted, and many end the training."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from toy_training import SETTINGS, TOY, trained
from toy_world import ToyWorld

from tasks.route.claims import readings
from tasks.route.policy import Policy
from tasks.route.trajectory import Trajectory


def spoiled(policy: Policy, patched: pytest.MonkeyPatch, count: int, value: float) -> None:
    """From here on the first `count` live rows of each update have gradients and inputs that are no numbers."""
    gradients = policy.gradients

    def given(rows: Any, knobs: torch.Tensor, loss: Any, record: bool = False) -> Any:
        found = gradients(rows, knobs, loss, record=record)
        for values in (found.gradients, found.inputs):
            if values is not None:
                values[:count] = value
        return found

    patched.setattr(policy, "gradients", given)


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_a_row_without_a_finite_gradient_trains_nothing_and_is_counted(policy: Policy, value: float) -> None:
    trajectory, zeroed = trained(policy, steps=1), trained(policy, steps=1)
    for one, bad in ((trajectory, value), (zeroed, 0.0)):
        with pytest.MonkeyPatch.context() as patched:
            spoiled(policy, patched, 1, bad)
            one.step()
    record = trajectory.state.rows[-1]
    assert record["not_finite"] == 1 and zeroed.state.rows[-1]["not_finite"] == 0
    assert record["events"] == ["rows without a finite gradient, which trained nothing: 1"]
    assert not {name: fine for name, _, fine in readings(record["splits"]["real"])}["not_finite"]
    json.dumps(trajectory.state.rows, allow_nan=False)
    assert sum("surprise" in row for row in record["log"]) == record["live_rows"] - 1
    # Exactly as if the gradient of the row were zero, in the whole and in every split.
    assert torch.equal(trajectory.state.whole.value, zeroed.state.whole.value)
    assert trajectory.state.whole.value.isfinite().all()
    for name, split in zeroed.state.splits.items():
        assert torch.equal(trajectory.state.splits[name].routed.value, split.routed.value), name
    trajectory.step()
    assert trajectory.state.rows[-1]["not_finite"] == 0


def test_many_rows_or_pairs_without_a_finite_gradient_end_the_training(
    policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    trajectory = trained(policy, steps=1)
    spoiled(policy, monkeypatch, 4, torch.nan)
    with pytest.raises(RuntimeError, match=r"4 of \d+ rows are not finite"):
        trajectory.step()
    with pytest.raises(RuntimeError, match=r"4 of the \d+ gradients of pairs are not finite"):
        Trajectory(SETTINGS, policy, ToyWorld(TOY)).step()
