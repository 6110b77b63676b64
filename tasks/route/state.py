"""What a trajectory is between two steps: its settings and state, what is deployed from it, its bytes, its refresh."""

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
from tasks.route.adapter import KnobLayout
from tasks.route.directions import (
    THINNEST,
    Band,
    Extraction,
    PairSides,
    Reduction,
    extract,
    pair_activations,
    pair_gradients,
    surprise_warning,
)
from tasks.route.gradients import Policy
from tasks.route.model import seed_of
from tasks.route.splits import Adam, Share, SplitSettings, SplitState, chosen_splits, no_share, refreshed
from tasks.route.world import World

LEAST_OVERLAP = 0.2
"""A direction with a smaller cosine with its predecessor, or with the one taken with quarantine on, is warned of."""
_EDGES = [edge.name for edge in dataclasses.fields(Band)]


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


def refresh_splits(
    settings: TrajectorySettings, policy: Policy, world: World, state: TrajectoryState
) -> tuple[dict[str, SplitState], dict[str, dict[str, Any]], list[str]]:
    """The splits with directions and bands from the pairs anew, the figures of each, and what happened, in lines.

    Each split's are taken with its own deltaS and the quarantine off.  Nothing else changes.
    """
    splits = dict(state.splits)
    quarantined: dict[str, Tensor] = {}
    figures: dict[str, dict[str, Any]] = {}
    events: list[str] = []
    seen: list[tuple[str, Tensor, PairSides]] = []

    def sides_at(kind: str, knobs: Tensor) -> PairSides:
        """The pairs through the model, once for each kind and knobs: at first all splits have the same."""
        for known, at, sides in seen:
            if known == kind and torch.equal(at, knobs):
                return sides
        pairs = world.placebo if kind == "placebo" else world.pairs
        if kind == "activations":
            new = pair_activations(policy, pairs, knobs)
        else:
            new = pair_gradients(policy, pairs, knobs, settings.reduction)
        seen.append((kind, knobs, new))
        return new

    if state.step == 0 and (warning := surprise_warning(policy, world.pairs, state.whole.value)):
        events.append(warning)
    for split in settings.plan():
        before = splits[split.name]
        if not split.extracts or before.frozen:
            continue
        kind = split.source if split.source in ("placebo", "activations") else "pairs"
        layout = policy.adapter.inputs if kind == "activations" else policy.adapter.layout
        sides = sides_at(kind, deployed_knobs(state, split.name))
        new = extract(split.source, layout, sides, settings.dims, settings.seed, split.name)
        splits[split.name], event = refreshed(before, new)
        null_seed = seed_of(settings.seed, split.name)
        null = extract("permuted", layout, sides, settings.dims, null_seed, "permuted").band.separation()
        found = _refresh_figures(layout, before, new, splits[split.name], null)
        if split.source != "random":
            if split.source not in quarantined:
                shared = sides_at(kind, state.whole.value)
                whole = extract(split.source, layout, shared, settings.dims, settings.seed, split.name)
                quarantined[split.source] = whole.direction[0]
            found["overlap_quarantine"] = mean_cosine(layout, new.direction[0], quarantined[split.source])
        figures[split.name] = found
        events += [f"{split.name}: {line}" for line in ([event] if event else []) + _warnings(found)]
    return splits, figures, events


def _refresh_figures(
    layout: KnobLayout, before: SplitState, new: Extraction, after: SplitState, null: float
) -> dict[str, Any]:
    """Gaps, separation and overlap; mean edges over the open modules, or over all where none is open.

    `null` is the separation of permuted pairs.
    """
    band = after.extraction.band if after.extraction is not None else new.band
    opened = band.open()
    among = opened if bool(opened.any()) else torch.ones_like(opened)
    found = {
        "hkgap": new.band.hkgap(),
        "first_hkgap": after.first_gap,
        "separation": new.band.separation(),
        "separation_permuted": null,
        "frozen": after.frozen,
        "lower": float(band.lower[among].mean()),
        "upper": float(band.upper[among].mean()),
        "open_modules": int(opened.sum()),
        "closed_modules": int((~opened).sum()),
    }
    if before.extraction is not None:
        found["overlap_previous"] = mean_cosine(layout, new.direction[0], before.extraction.direction[0])
    return found


def _warnings(found: dict[str, Any]) -> list[str]:
    lines = []
    for name in ("overlap_previous", "overlap_quarantine"):
        if found.get(name) is not None and found[name] < LEAST_OVERLAP:
            lines.append(f"{name} is {found[name]:.2f}, below {LEAST_OVERLAP}")
    if not found["open_modules"]:
        lines.append(f"no module has a band of at least {THINNEST}: it routes nothing")
    return lines


def mean_cosine(layout: KnobLayout, one: Tensor, other: Tensor) -> float:
    """The mean over modules of the cosine of two flat vectors; a module where one is 0 counts as 0."""
    return float(layout.sums(layout.units(one) * layout.units(other)).mean())
