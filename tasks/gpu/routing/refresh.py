"""The refresh: each split's direction and band from the pairs again, with its own deltaS and the quarantine off."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from tasks.gpu.routing.band import THINNEST
from tasks.gpu.routing.controls import seed_of
from tasks.gpu.routing.diagnostics import band_figures, mean_cosine
from tasks.gpu.routing.layout import KnobLayout
from tasks.gpu.routing.pair_sides import pair_activations, pair_gradients, pair_surprise, surprise_warning
from tasks.gpu.routing.row_gradients import PolicyRows
from tasks.gpu.routing.splits import (
    Extraction,
    PairSides,
    SplitSettings,
    SplitState,
    extract,
    extract_direction,
    refreshed,
)
from tasks.gpu.routing.trajectory_state import TrajectorySettings, TrajectoryState, deployed_knobs
from tasks.gpu.routing.world import World

LEAST_OVERLAP = 0.2
"""A direction with a smaller cosine with its predecessor, or with the one taken with quarantine on, is warned of."""


def refresh_splits(
    settings: TrajectorySettings, policy: PolicyRows, world: World, state: TrajectoryState
) -> tuple[dict[str, SplitState], dict[str, dict[str, Any]], list[str]]:
    """The splits with new extractions, the figures of each, and what happened, in lines.  Nothing else changes."""
    splits = dict(state.splits)
    quarantined: dict[str, Tensor] = {}
    seen = _PairsSeen(settings, policy, world)
    figures: dict[str, dict[str, Any]] = {}
    events: list[str] = []
    if state.step == 0 and (warning := surprise_warning(*pair_surprise(policy, world.pairs, state.whole.value))):
        events.append(warning)
    for split in settings.plan():
        before = splits[split.name]
        if not split.extracts or before.frozen:
            continue
        layout = policy.adapter.inputs if split.source == "activations" else policy.adapter.layout
        sides = seen.sides(split, deployed_knobs(state, split.name))
        new = extract(split, layout, sides, settings.seed, settings.dims)
        splits[split.name], event = refreshed(before, new)
        found = _figures(settings, split, layout, sides, before, new, splits[split.name])
        if split.source != "random":
            if split.source not in quarantined:
                shared = seen.sides(split, state.whole.value)
                quarantined[split.source] = extract_direction(split, layout, shared, settings.seed, settings.dims)
            found["overlap_quarantine"] = mean_cosine(layout, new.direction[0], quarantined[split.source][0])
        figures[split.name] = found
        events += [f"{split.name}: {line}" for line in (event, *_warnings(found)) if line is not None]
    return splits, figures, events


@dataclass
class _PairsSeen:
    """The pairs through the model, once for each kind and knobs: at first all splits have the same, and some later."""

    settings: TrajectorySettings
    policy: PolicyRows
    world: World
    found: list[tuple[str, Tensor, PairSides]] = field(default_factory=list)

    def sides(self, split: SplitSettings, knobs: Tensor) -> PairSides:
        kind = split.source if split.source in ("placebo", "activations") else "pairs"
        for known, at, sides in self.found:
            if known == kind and torch.equal(at, knobs):
                return sides
        pairs = self.world.placebo if kind == "placebo" else self.world.pairs
        if kind == "activations":
            new = pair_activations(self.policy, pairs, knobs)
        else:
            new = pair_gradients(self.policy, pairs, knobs, self.settings.reduction)
        self.found.append((kind, knobs, new))
        return new


def _figures(
    settings: TrajectorySettings,
    split: SplitSettings,
    layout: KnobLayout,
    sides: PairSides,
    before: SplitState,
    new: Extraction,
    after: SplitState,
) -> dict[str, Any]:
    permuted = SplitSettings("permuted", source="permuted")
    null = extract(permuted, layout, sides, seed_of(settings.seed, split.name), settings.dims).band
    used = after.extraction.band if after.extraction is not None else new.band
    found: dict[str, Any] = {
        "hkgap": new.band.hkgap(),
        "first_hkgap": after.first_gap,
        "separation": new.band.separation(),
        "separation_permuted": null.separation(),
        "frozen": after.frozen,
        **band_figures(used),
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
