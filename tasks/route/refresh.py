"""Directions and bands taken from the pairs anew, what they show, and what a collapse freezes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from tasks.route.adapter import KnobLayout
from tasks.route.directions import THINNEST, Extraction, Measure, PairSides, extract, mean_cosine, pair_sides
from tasks.route.policy import Policy, seed_of
from tasks.route.state import SplitState, TrajectorySettings, TrajectoryState, deployed_knobs
from tasks.route.world import ProgramsWorld

COLLAPSE = 0.25
"""Below this share of the first hkgap a direction has collapsed."""
LEAST_OVERLAP = 0.2
"""A direction with a smaller cosine with its predecessor, or with the one taken with quarantine on, is warned of."""


def refresh_splits(
    settings: TrajectorySettings, policy: Policy, world: ProgramsWorld, state: TrajectoryState
) -> tuple[Mapping[str, SplitState], dict[str, dict[str, Any]], list[str]]:
    """The splits with new extractions, each with its own deltaS and the quarantine off; the figures of each, by name;
    and what happened, in lines.
    """
    splits = dict(state.splits)
    quarantined: dict[str, Tensor] = {}
    figures: dict[str, dict[str, Any]] = {split.name: {} for split in settings.plan()}
    events: list[str] = []
    seen: list[tuple[str, Tensor, PairSides]] = []

    def sides_at(kind: str, knobs: Tensor) -> PairSides:
        """The pairs through the model, once for each kind and knobs: at first all splits have the same."""
        for known, at, sides in seen:
            if known == kind and torch.equal(at, knobs):
                return sides
        measure: Measure = "activations" if kind == "activations" else settings.reduction
        new = pair_sides(policy, world.placebo if kind == "placebo" else world.pairs, knobs, measure)
        seen.append((kind, knobs, new))
        return new

    for split in settings.plan():
        before = splits[split.name]
        if not split.extracts or before.frozen:
            continue
        kind = split.source if split.source in ("placebo", "activations") else "pairs"
        layout = policy.adapter.inputs if kind == "activations" else policy.adapter.layout
        sides = sides_at(kind, deployed_knobs(state, split.name))
        new = extract(split.source, layout, sides, settings.dims, settings.seed, split.name)
        null = extract("permuted", layout, sides, settings.dims, seed_of(settings.seed, split.name), "permuted")
        splits[split.name], collapse = refreshed(before, new)
        found = _figures(layout, before, new, splits[split.name], null)
        if split.source != "random":
            if split.source not in quarantined:
                shared = sides_at(kind, state.whole.value)
                whole = extract(split.source, layout, shared, settings.dims, settings.seed, split.name)
                quarantined[split.source] = whole.direction[0]
            found["overlap_quarantine"] = mean_cosine(layout, new.direction[0], quarantined[split.source])
        figures[split.name] = found
        events += [f"{split.name}: {line}" for line in (*collapse, *_warnings(found))]
    if state.step == 0:
        events = [_surprise(sides) for kind, _, sides in seen if kind == "pairs"][:1] + events
    return splits, figures, events


def refreshed(state: SplitState, new: Extraction) -> tuple[SplitState, list[str]]:
    """With a new extraction, or, on a collapse, for good with that from before routing; and a line of the collapse."""
    gap = new.hkgap()
    first = gap if state.first_gap is None else state.first_gap
    if first > 0 and gap < COLLAPSE * first:
        event = f"collapse: hkgap {gap:.3f} is below a quarter of its first value, {first:.3f}; frozen"
        return replace(state, extraction=state.before, frozen=True), [event]
    return replace(state, extraction=new, before=state.before if state.has_routed else new, first_gap=first), []


def _figures(
    layout: KnobLayout, before: SplitState, new: Extraction, after: SplitState, null: Extraction
) -> dict[str, Any]:
    """Gaps, separation and overlap; mean edges over the open modules, or over all where none is open.

    `null` is of permuted pairs.
    """
    band = after.extraction or new
    opened = band.open()
    among = opened if bool(opened.any()) else torch.ones_like(opened)
    found = {
        "hkgap": new.hkgap(),
        "first_hkgap": after.first_gap,
        "separation": new.separation(),
        "separation_permuted": null.separation(),
        "frozen": after.frozen,
        "lower": float(band.lower[among].mean()),
        "upper": float(band.upper[among].mean()),
        "open_modules": int(opened.sum()),
        "closed_modules": int((~opened).sum()),
    }
    if before.extraction is not None:
        found["overlap_previous"] = mean_cosine(layout, new.direction[0], before.extraction.direction[0])
    return found


def _warnings(found: Mapping[str, Any]) -> list[str]:
    overlaps = {name: found.get(name, 1.0) for name in ("overlap_previous", "overlap_quarantine")}
    lines = [
        f"{name} is {value:.2f}, below {LEAST_OVERLAP}" for name, value in overlaps.items() if value < LEAST_OVERLAP
    ]
    if not found["open_modules"]:
        lines.append(f"no module has a band of at least {THINNEST}: it routes nothing")
    return lines


def _surprise(sides: PairSides) -> str:
    both = sides.rej_surprise, sides.cho_surprise
    said = f"pairs: {both[0]:.2f} nats a token for hacks, {both[1]:.2f} for honest completions"
    return said + ("" if max(both) <= 2 * min(both) else "; they differ by more than a factor of 2, which is a warning")
