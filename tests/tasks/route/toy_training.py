"""A trajectory in the toy world with all splits, for the tests of the loop and its parts."""

from __future__ import annotations

import torch
from toy_world import ToyWorld

from tasks.route.policy import Policy
from tasks.route.splits import SPLITS
from tasks.route.state import Adam, SplitState, TrajectorySettings
from tasks.route.trajectory import Trajectory

SETTINGS = TrajectorySettings(
    seed=11, longest=4, splits=tuple(SPLITS), adam=Adam(rate=0.02, decay=0.01, largest_norm=1.0), teacher_off_step=4,
    refresh_every=3,
)  # fmt: skip
STEPS = 6


def trained(
    policy: Policy, settings: TrajectorySettings = SETTINGS, world: ToyWorld | None = None, steps: int = STEPS
) -> Trajectory:
    trajectory = Trajectory(settings, policy, world or ToyWorld())
    for _ in range(steps):
        trajectory.step()
    return trajectory


def same_split(one: SplitState, other: SplitState) -> bool:
    directions = [(None if state.extraction is None else state.extraction.direction) for state in (one, other)]
    same = (directions[0] is None) == (directions[1] is None)
    if directions[0] is not None and directions[1] is not None:
        same = torch.equal(directions[0], directions[1])
    return (
        same and torch.equal(one.routed.value, other.routed.value) and torch.equal(one.routed.first, other.routed.first)
    )
