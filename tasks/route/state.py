"""A trajectory's state as bytes, without pickle: a resumed trajectory goes on to the bit."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from safetensors.torch import load, save
from torch import Tensor

from tasks.common.validation import CHECKPOINT_BYTES
from tasks.route.directions import Band, Reduction
from tasks.route.gradients import Adam, Share, no_share
from tasks.route.splits import Extraction, SplitSettings, SplitState, chosen_splits


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


_EDGES = [edge.name for edge in dataclasses.fields(Band)]


def dump_state(state: TrajectoryState) -> bytes:
    """Everything that decides how it goes on.  Random numbers come from the seed and the step, so none is kept."""
    tensors = {"whole": state.whole.value, "first": state.whole.first, "second": state.second}
    flags: dict[str, Any] = {}
    for name, split in state.splits.items():
        tensors |= {f"{name}/routed": split.routed.value, f"{name}/first": split.routed.first}
        for place in ("extraction", "before"):
            tensors |= _extraction_tensors(f"{name}/{place}", getattr(split, place))
        flags[name] = {flag: getattr(split, flag) for flag in ("first_gap", "frozen", "has_routed")}
    record = {
        "step": state.step,
        "updates": state.updates,
        "splits": flags,
        "rows": list(state.rows),
    }
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
    splits = {
        name: SplitState(
            Share(tensors[f"{name}/routed"], tensors[f"{name}/first"]),
            _extraction(f"{name}/extraction", tensors),
            _extraction(f"{name}/before", tensors),
            **flags,
        )
        for name, flags in record["splits"].items()
    }
    whole = Share(tensors["whole"], tensors["first"])
    return TrajectoryState(record["step"], record["updates"], whole, tensors["second"], splits, tuple(record["rows"]))


def _extraction_tensors(name: str, extraction: Extraction | None) -> dict[str, Tensor]:
    if extraction is None:
        return {}
    edges = torch.stack([getattr(extraction.band, edge) for edge in _EDGES])
    centre = {} if extraction.centre is None else {f"{name}/centre": extraction.centre}
    return {f"{name}/direction": extraction.direction, f"{name}/band": edges, **centre}


def _extraction(name: str, tensors: dict[str, Tensor]) -> Extraction | None:
    if f"{name}/direction" not in tensors:
        return None
    return Extraction(
        tensors[f"{name}/direction"], Band(*tensors[f"{name}/band"].unbind()), tensors.get(f"{name}/centre")
    )
