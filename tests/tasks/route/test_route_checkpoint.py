"""A trajectory as bytes: it goes on to the bit, and what is no checkpoint of it is refused."""

from __future__ import annotations

import pytest
import torch
from toy_training import SETTINGS, STEPS, TOY, trained
from toy_world import ToyWorld

from tasks.route.policy import Policy
from tasks.route.splits import TrajectoryState, dump_state
from tasks.route.trajectory import Trajectory


def test_a_resumed_trajectory_goes_on_to_the_bit(policy: Policy, finished: TrajectoryState) -> None:
    torch.manual_seed(99)  # the global state decides nothing
    state = trained(policy, steps=2).dump()
    for step in range(2, STEPS):  # resumed before every step
        resumed = Trajectory(SETTINGS, policy, ToyWorld(TOY), state)
        assert resumed.state.step == step
        torch.rand(3)
        resumed.step()
        state = resumed.dump()
    assert state == dump_state(finished)


def test_a_state_larger_than_a_checkpoint_may_be_is_refused(
    finished: TrajectoryState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.route.splits.CHECKPOINT_BYTES", 1000)
    with pytest.raises(ValueError, match="1,000 are allowed"):
        dump_state(finished)
