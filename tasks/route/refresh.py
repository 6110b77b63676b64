"""The refresh: each split's direction and band from the pairs again, with its own deltaS and the quarantine off."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from tasks.route.adapter import KnobLayout
from tasks.route.directions import (
    THINNEST,
    Band,
    PairSides,
    pair_activations,
    pair_gradients,
    pair_surprise,
    surprise_warning,
)
from tasks.route.gradients import PolicyRows
from tasks.route.model import seed_of
from tasks.route.splits import Extraction, SplitSettings, SplitState, extract, extract_direction, refreshed
from tasks.route.state import TrajectorySettings, TrajectoryState, deployed_knobs
from tasks.route.world import World


def live_figures(
    x: Tensor, shares: Tensor, live: Tensor, teacher: Tensor, lengths: Tensor, surprise: Tensor
) -> dict[str, float | None]:
    """Of x and f [G, M] of one step's live rows: percentiles, mean and mass at 0 and 1, correlations.

    x of a row is its mean over the modules that have a gradient; f is counted for each row and module, of student rows
    and, as `teacher_f_mean`, of teacher rows [G].
    """
    if not live.any():
        return {}
    count = live.sum(1)
    rows = count > 0
    mean = ((x * live).sum(1) / count.clamp(min=1))[rows]
    student = shares[~teacher][live[~teacher]]
    taught = shares[teacher][live[teacher]]
    low, middle, high = torch.quantile(mean, torch.tensor([0.1, 0.5, 0.9], device=mean.device)).tolist()
    return {
        **{"x_p10": low, "x_p50": middle, "x_p90": high},
        **{"f_mean": _mean(student), "f_at_0": _mean(student == 0), "f_at_1": _mean(student == 1)},
        "teacher_f_mean": _mean(taught),
        "x_length": correlation(mean, lengths[rows]),
        "x_surprise": correlation(mean, surprise[rows]),
    }


def band_figures(band: Band) -> dict[str, float]:
    """Mean edges over the open modules (over all, where none is open), and how many are open."""
    opened = band.open()
    among = opened if bool(opened.any()) else torch.ones_like(opened)
    return {
        "lower": float(band.lower[among].mean()),
        "upper": float(band.upper[among].mean()),
        "open_modules": int(opened.sum()),
        "closed_modules": int((~opened).sum()),
    }


def mean_cosine(layout: KnobLayout, one: Tensor, other: Tensor) -> float:
    """The mean over modules of the cosine of two flat vectors; a module where one is 0 counts as 0."""
    return float(layout.sums(layout.units(one) * layout.units(other)).mean())


def correlation(one: Tensor, other: Tensor) -> float | None:
    """Pearson's, or None where one of both does not vary."""
    first, second = one.float() - one.float().mean(), other.float() - other.float().mean()
    scale = float(first.norm() * second.norm())
    return float((first * second).sum()) / scale if scale > 1e-9 else None


def _mean(values: Tensor) -> float | None:
    return float(values.float().mean()) if len(values) else None


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
