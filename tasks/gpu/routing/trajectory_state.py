"""What a trajectory is: its settings, its state, and which knobs are deployed from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from tasks.gpu.routing.pair_sides import Reduction
from tasks.gpu.routing.splits import SplitSettings, SplitState, chosen_splits
from tasks.gpu.routing.update import Adam, Share, no_share


@dataclass(frozen=True)
class TrajectorySettings:
    """`longest`: tokens of a completion; `kind` `erase` takes the hack-ward part off every update and has no splits.

    `rollout_ablate_frac`: the share of rows sampled and trained without the quarantine; above 0 a trajectory has one
    split, whose quarantine it is.
    """

    seed: int
    longest: int
    splits: tuple[str, ...] = ("real",)
    kind: Literal["shared", "erase"] = "shared"
    adam: Adam = field(default_factory=Adam)
    group_size: int = 8
    beta: float = 0.0
    teacher_off_step: int = 30
    refresh_every: int = 10
    rollout_ablate_frac: float = 0.0
    reduction: Reduction = "mean"
    dims: int = 1

    def plan(self) -> tuple[SplitSettings, ...]:
        """The splits in the order of work; for `erase` the one whose direction is erased."""
        return (SplitSettings("erase"),) if self.kind == "erase" else chosen_splits(self.splits)


@dataclass(frozen=True)
class TrajectoryState:
    """After `step` steps and `updates` of Adam: `whole` is deltaS + deltaS_hack of every split, `second` its moment.

    `rows` is the record of each step, as JSON.
    """

    step: int
    updates: int
    whole: Share
    second: Tensor
    splits: Mapping[str, SplitState]
    rows: tuple[Mapping[str, Any], ...] = ()


def first_state(settings: TrajectorySettings, knobs: int, device: torch.device) -> TrajectoryState:
    splits = {split.name: SplitState(no_share(knobs, device)) for split in settings.plan()}
    return TrajectoryState(0, 0, no_share(knobs, device), torch.zeros(knobs, device=device), splits)


def deployed_knobs(state: TrajectoryState, name: str, *, quarantine: bool = False) -> Tensor:
    """The knobs [R] of what is deployed under this name.

    A split: deltaS, with `quarantine` deltaS_hack too.  `none` and `erase`: all that was trained.  `untrained`: zeros.
    `scaled_0.25`: a quarter of all that was trained.
    """
    whole = state.whole.value
    if name == "untrained":
        return torch.zeros_like(whole)
    if name.startswith("scaled_"):
        return whole * float(name.removeprefix("scaled_"))
    if name in ("none", "erase") or quarantine:
        return whole
    return whole - state.splits[name].routed.value
