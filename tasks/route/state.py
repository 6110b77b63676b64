"""What a trajectory has learned so far, how one Adam moves it, and its bytes.

Adam divides by the gradient's own size, so a knob with an Adam of its own that gets 5 % of every gradient moves as far
as one that gets all.  Here the second moment sees the whole gradient; the shares of the splits differ in their first
moments only, and both are divided by the same root.  Everything after the root is linear, so the kept share is the
whole minus the routed one, and kept + routed moves as without routing: a split changes nothing for the others.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from safetensors.torch import load, save
from torch import Tensor

from tasks.common.validation import CHECKPOINT_BYTES
from tasks.route.adapter import KnobLayout
from tasks.route.directions import Extraction, Reduction
from tasks.route.splits import SplitSettings, chosen_splits

_EDGES = ("lower", "upper", "held_lower", "held_upper")
_FLAGS = ("first_gap", "frozen", "has_routed")


@dataclass(frozen=True)
class Adam:
    """Its settings; `decay` is decoupled, `largest_norm` limits the norm of the whole gradient (0: no limit)."""

    rate: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    decay: float = 0.0
    largest_norm: float = 0.0


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
class Share:
    """Knobs [R] and the first moment of the gradients that they got [R]."""

    value: Tensor
    first: Tensor


@dataclass(frozen=True)
class SplitState:
    """`routed` is deltaS_hack and its first moment; deltaS is the whole minus it.

    `before` is the last extraction from before anything was routed, `first_gap` the first hkgap.
    """

    routed: Share
    extraction: Extraction | None = None
    before: Extraction | None = None
    first_gap: float | None = None
    frozen: bool = False
    has_routed: bool = False


@dataclass(frozen=True)
class TrajectoryState:
    """After `step` steps, each with its record in `rows`, and `updates` of Adam: `whole` is deltaS + deltaS_hack of
    every split, `second` its second moment.
    """

    step: int
    updates: int
    whole: Share
    second: Tensor
    splits: Mapping[str, SplitState]
    rows: tuple[Mapping[str, Any], ...] = ()


def first_state(settings: TrajectorySettings, knobs: int, device: torch.device) -> TrajectoryState:
    zeros = torch.zeros(knobs, device=device)
    splits = {split.name: SplitState(Share(zeros, zeros)) for split in settings.plan()}
    return TrajectoryState(0, 0, Share(zeros, zeros), zeros, splits)


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


@dataclass(frozen=True)
class AdamStep:
    """Step number `count` (from 1): how it moves each share, linear in the share's own gradient.

    What the shares have in common is of the whole gradient: the clipping `clip`, the new second moment `second` [R],
    and the root of it that divides, `root` [R].
    """

    adam: Adam
    count: int
    clip: float
    second: Tensor
    root: Tensor

    def move(self, share: Share, gradient: Tensor, erase: Callable[[Tensor], Tensor] | None = None) -> Share:
        """The share after the step; `gradient` [R] is what it got, `erase` takes some off the update [R]."""
        adam = self.adam
        first = adam.beta1 * share.first + (1 - adam.beta1) * (gradient * self.clip)
        update = first / (1 - adam.beta1**self.count) / self.root
        if erase is not None:
            update = erase(update)
        return Share(share.value * (1 - adam.rate * adam.decay) - adam.rate * update, first)


def adam_step(adam: Adam, whole: Tensor, second: Tensor, count: int) -> AdamStep:
    """From the whole gradient [R] and the second moment [R] before it."""
    norm = float(whole.norm())
    clip = adam.largest_norm / norm if adam.largest_norm and norm > adam.largest_norm else 1.0
    clipped = whole * clip
    second = adam.beta2 * second + (1 - adam.beta2) * clipped * clipped
    root = (second / (1 - adam.beta2**count)).sqrt() + adam.epsilon
    return AdamStep(adam, count, clip, second, root)


def without_component(layout: KnobLayout, update: Tensor, direction: Tensor) -> Tensor:
    """The update [R] without its hack-ward component along direction [k, R], in each module.

    Of the update, not of the gradient: divided by the root, a gradient without the component has it again.
    """
    for vector in direction:
        update = update - layout.spread(layout.sums(update * vector).clamp(min=0)) * vector
    return update


def dump_state(state: TrajectoryState) -> bytes:
    """Everything that decides how it goes on, without pickle.  Random numbers come from the seed and the step."""
    tensors = {"whole": state.whole.value, "first": state.whole.first, "second": state.second}
    flags: dict[str, Any] = {}
    for name, split in state.splits.items():
        tensors |= {f"{name}/routed": split.routed.value, f"{name}/first": split.routed.first}
        for place, found in (("extraction", split.extraction), ("before", split.before)):
            if found is not None:
                edges = torch.stack([getattr(found, edge) for edge in _EDGES])
                tensors |= {f"{name}/{place}/direction": found.direction, f"{name}/{place}/band": edges}
                tensors |= {} if found.centre is None else {f"{name}/{place}/centre": found.centre}
        flags[name] = {flag: getattr(split, flag) for flag in _FLAGS}
    record = {"step": state.step, "updates": state.updates, "splits": flags, "rows": list(state.rows)}
    text = json.dumps(record, allow_nan=False, separators=(",", ":")).encode()
    tensors["record"] = torch.frombuffer(bytearray(text), dtype=torch.uint8)
    # A copy of each: tensors that share memory are refused.
    data = save({name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()})
    if len(data) > CHECKPOINT_BYTES:
        raise ValueError(f"a checkpoint of {len(data):,} bytes; {CHECKPOINT_BYTES:,} are allowed: name fewer splits")
    return data


def load_state(data: bytes, device: torch.device) -> TrajectoryState:
    tensors = load(data)
    record = json.loads(tensors["record"].numpy().tobytes())
    tensors = {name: tensor.to(device) for name, tensor in tensors.items()}

    def extraction(name: str) -> Extraction | None:
        if f"{name}/direction" not in tensors:
            return None
        edges = dict(zip(_EDGES, tensors[f"{name}/band"], strict=True))
        return Extraction(tensors[f"{name}/direction"], **edges, centre=tensors.get(f"{name}/centre"))

    splits = {
        name: SplitState(
            Share(tensors[f"{name}/routed"], tensors[f"{name}/first"]),
            extraction(f"{name}/extraction"),
            extraction(f"{name}/before"),
            **flags,
        )
        for name, flags in record["splits"].items()
    }
    whole = Share(tensors["whole"], tensors["first"])
    return TrajectoryState(record["step"], record["updates"], whole, tensors["second"], splits, tuple(record["rows"]))
