"""Splits: ways of dividing the same gradients between deltaS and deltaS_hack, side by side on the same rollouts.

A split gives each row and module a share f, which goes into the quarantine.  The whole gradient of the row is split,
never its component along the direction: that would be `erase`.

One Adam trains.  Adam divides by the gradient's own size, so a knob with an Adam of its own that gets 5 % of every
gradient moves as far as one that gets all.  Here the second moment sees the whole gradient; the shares differ in their
first moments only, and both are divided by the same root.  Everything after the root is linear, so the kept share is
the whole minus the routed one, and kept + routed moves as without routing: a split changes nothing for the others.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from safetensors.torch import load, save
from torch import Tensor

from tasks.common.validation import CHECKPOINT_BYTES
from tasks.route.adapter import KnobLayout
from tasks.route.claims import RANDOM_SPLITS
from tasks.route.directions import (
    Band,
    Extraction,
    Reduction,
    Source,
    alignment,
    matched_shares,
    module_gate,
    pooled_gate,
    random_direction,
    uniform_shares,
)

COLLAPSE = 0.25
"""Below this share of the first hkgap a direction has collapsed."""
_EDGES = [edge.name for edge in dataclasses.fields(Band)]


@dataclass(frozen=True)
class SplitSettings:
    """`of`: the split whose shares a control matches.  `advantage_free`: x is of the likelihood's gradient alone."""

    name: str
    gate: Literal["module", "pooled", "matched", "uniform", "labels"] = "module"
    source: Source = "pairs"
    sign: Literal["signed", "advantage_free"] = "signed"
    of: str = ""

    @property
    def extracts(self) -> bool:
        """Whether it takes a direction or a band from pairs."""
        return self.gate in ("module", "pooled")


SPLITS: Mapping[str, SplitSettings] = {
    split.name: split
    for split in (
        SplitSettings("real"),
        SplitSettings("pooled", gate="pooled"),
        SplitSettings("activations", source="activations"),
        SplitSettings("advantage_free", sign="advantage_free"),
        SplitSettings("permuted", source="permuted"),
        SplitSettings("placebo", source="placebo"),
        SplitSettings("band_random", source="random"),
        SplitSettings("uniform", gate="uniform", source="none", of="real"),
        SplitSettings("ceiling", gate="labels", source="none"),
        *(SplitSettings(name, gate="matched", source="random", of="real") for name in RANDOM_SPLITS),
    )
}
"""`ceiling` sees labels and is a cheat by design, to show what suppression can reach; no other does."""


def chosen_splits(names: tuple[str, ...]) -> tuple[SplitSettings, ...]:
    """The splits of these names, each after the one that it matches, which is added where it is not named."""
    wanted = {*names, *(SPLITS[name].of for name in names)}
    return tuple(split for name, split in SPLITS.items() if name in wanted)


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
class Share:
    """Knobs [R] and the first moment of the gradients that they got [R]."""

    value: Tensor
    first: Tensor


@dataclass(frozen=True)
class StepScale:
    """What all shares have in common in the step number `count`: `clip`, and the root [R] that divides."""

    clip: float
    root: Tensor
    count: int


def no_share(total: int, device: torch.device) -> Share:
    return Share(torch.zeros(total, device=device), torch.zeros(total, device=device))


def whole_scale(gradient: Tensor, second: Tensor, count: int, adam: Adam) -> tuple[StepScale, Tensor]:
    """The scale of the step number `count` (from 1) and the new second moment, both by the whole gradient [R]."""
    norm = float(gradient.norm())
    clip = adam.largest_norm / norm if adam.largest_norm and norm > adam.largest_norm else 1.0
    clipped = gradient * clip
    second = adam.beta2 * second + (1 - adam.beta2) * clipped * clipped
    root = (second / (1 - adam.beta2**count)).sqrt() + adam.epsilon
    return StepScale(clip, root, count), second


def share_step(
    share: Share, gradient: Tensor, scale: StepScale, adam: Adam, erase: Callable[[Tensor], Tensor] | None = None
) -> Share:
    """A share after the gradient [R] that it got, linear in it; `erase` takes something off the update."""
    first = adam.beta1 * share.first + (1 - adam.beta1) * (gradient * scale.clip)
    update = first / (1 - adam.beta1**scale.count) / scale.root
    if erase is not None:
        update = erase(update)
    return Share(share.value * (1 - adam.rate * adam.decay) - adam.rate * update, first)


def without_component(layout: KnobLayout, update: Tensor, direction: Tensor) -> Tensor:
    """The update [R] without its hack-ward component along direction [k, R], in each module.

    Of the update, not of the gradient: divided by the root, a gradient without the component has it again.
    """
    for vector in direction:
        update = update - layout.spread(layout.sums(update * vector).clamp(min=0)) * vector
    return update


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


def refreshed(state: SplitState, new: Extraction) -> tuple[SplitState, str | None]:
    """With a new extraction, or, on a collapse, for good with that from before routing; and the event to log."""
    gap = new.band.hkgap()
    first = gap if state.first_gap is None else state.first_gap
    if first > 0 and gap < COLLAPSE * first:
        event = f"collapse: hkgap {gap:.3f} is below a quarter of its first value, {first:.3f}; frozen"
        return replace(state, extraction=state.before, frozen=True), event
    before = state.before if state.has_routed else new
    return replace(state, extraction=new, before=before, first_gap=first), None


@dataclass(frozen=True)
class LiveRows:
    """What splits see of the rows of one step.

    gradients [G, R] and the norm of each module's part, `norms` [G, M]; signs [G] of the advantages; inputs [G, D]
    where a split needs them; labels [G], which only `ceiling` reads.
    """

    gradients: Tensor
    norms: Tensor
    signs: Tensor
    inputs: Tensor | None
    labels: Tensor

    @property
    def live(self) -> Tensor:
        """Where a module's gradient is not zero, [G, M]."""
        return self.norms > 0


def route(
    split: SplitSettings,
    state: SplitState,
    layouts: tuple[KnobLayout, KnobLayout],
    rows: LiveRows,
    seed: int,
    shares: Mapping[str, Tensor],
) -> tuple[Tensor, Tensor]:
    """x and f of each row and module, both [G, M].  `shares` are the f of the splits before it.

    layouts: of the knobs, and of the modules' inputs.
    """
    live = rows.live
    if split.gate == "labels":
        return torch.zeros_like(rows.norms), rows.labels[:, None].to(live.device) * live.float()
    if split.gate == "uniform":
        return torch.zeros_like(rows.norms), uniform_shares(shares[split.of], live)
    if split.gate == "matched":
        direction = random_direction(layouts[0], seed, split.name, rows.norms.device)
        x = alignment(layouts[0], rows.gradients, direction, rows.norms)
        return x, matched_shares(x, shares[split.of], live)
    assert state.extraction is not None
    extraction, signs = state.extraction, rows.signs[:, None]
    if extraction.centre is not None:  # an activation has no advantage in it, as a gradient has: it is given its sign
        assert rows.inputs is not None
        x = alignment(layouts[1], rows.inputs - extraction.centre, extraction.direction) * signs
    else:
        gradients = rows.gradients * signs if split.sign == "advantage_free" else rows.gradients
        x = alignment(layouts[0], gradients, extraction.direction, rows.norms)
    gate = pooled_gate if split.gate == "pooled" else module_gate
    return x, gate(x, live, extraction.band)


def routed_gradient(layout: KnobLayout, gradients: Tensor, shares: Tensor) -> Tensor:
    return (layout.spread(shares) * gradients).sum(0)


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


def dump_state(state: TrajectoryState) -> bytes:
    """Everything that decides how it goes on, without pickle.  Random numbers come from the seed and the step."""
    tensors = {"whole": state.whole.value, "first": state.whole.first, "second": state.second}
    flags: dict[str, Any] = {}
    for name, split in state.splits.items():
        tensors |= {f"{name}/routed": split.routed.value, f"{name}/first": split.routed.first}
        for place in ("extraction", "before"):
            if (found := getattr(split, place)) is not None:
                edges = torch.stack([getattr(found.band, edge) for edge in _EDGES])
                tensors |= {f"{name}/{place}/direction": found.direction, f"{name}/{place}/band": edges}
                tensors |= {} if found.centre is None else {f"{name}/{place}/centre": found.centre}
        flags[name] = {flag: getattr(split, flag) for flag in ("first_gap", "frozen", "has_routed")}
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
        band = Band(*tensors[f"{name}/band"].unbind())
        return Extraction(tensors[f"{name}/direction"], band, tensors.get(f"{name}/centre"))

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
