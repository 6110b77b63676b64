"""A trajectory as bytes: it goes on to the bit, and what is no checkpoint of it is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from toy_training import SETTINGS, STEPS, TOY, trained
from toy_world import ToyWorld

from tasks.gpu.routing.checkpoint import RouteCheckpointError, dump_state, load_state
from tasks.gpu.routing.loop import Trajectory
from tasks.gpu.routing.row_gradients import PolicyRows
from tasks.gpu.routing.trajectory_state import TrajectoryState


def test_a_resumed_trajectory_goes_on_to_the_bit(policy: PolicyRows, finished: TrajectoryState) -> None:
    torch.manual_seed(99)  # the global state decides nothing
    state = trained(policy, steps=2).dump()
    for step in range(2, STEPS):  # resumed before every step
        resumed = Trajectory(SETTINGS, policy, ToyWorld(TOY), state)
        assert resumed.state.step == step
        torch.rand(3)
        resumed.step()
        state = resumed.dump()
    assert state == dump_state(SETTINGS, finished)


def test_a_checkpoint_of_other_settings_or_none_at_all_is_refused(policy: PolicyRows) -> None:
    data = Trajectory(SETTINGS, policy, ToyWorld(TOY)).dump()
    for broken in (data[: len(data) // 2], b"", b"pickle", data[8:]):
        with pytest.raises(RouteCheckpointError, match="no checkpoint"):
            load_state(SETTINGS, broken, torch.device("cpu"))
    with pytest.raises(RouteCheckpointError, match="other settings"):
        load_state(replace(SETTINGS, seed=12), data, torch.device("cpu"))


def test_a_full_card_is_no_damaged_checkpoint(policy: PolicyRows, monkeypatch: pytest.MonkeyPatch) -> None:
    data = Trajectory(SETTINGS, policy, ToyWorld(TOY)).dump()

    def full(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(torch.Tensor, "to", full)
    with pytest.raises(torch.OutOfMemoryError):
        load_state(SETTINGS, data, torch.device("cpu"))


def test_a_state_larger_than_a_checkpoint_may_be_is_refused(
    finished: TrajectoryState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.gpu.routing.checkpoint.LARGEST_CHECKPOINT", 1000)
    with pytest.raises(RouteCheckpointError, match="1,000 are allowed"):
        dump_state(SETTINGS, finished)
