"""Splits: ways of dividing the same gradients between deltaS and deltaS_hack, side by side on the same rollouts.

Kept + routed moves as without routing, whatever the shares, so a split changes nothing for the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

import torch
from torch import Tensor

from tasks.route.adapter import KnobLayout
from tasks.route.claims import RANDOM_SPLITS
from tasks.route.directions import (
    THINNEST,
    Band,
    Build,
    PairSides,
    alignment,
    fit_band,
    hack_direction,
    label_shares,
    matched_shares,
    random_direction,
    swapped_pairs,
    uniform_shares,
)
from tasks.route.gradients import Share
from tasks.route.model import seed_of


def ramp(x: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """clamp((x - lower) / (upper - lower), 0, 1); 0 where the band is thin or inverted."""
    width = upper - lower
    wide = width >= THINNEST
    share = ((x - lower) / torch.where(wide, width, torch.ones_like(width))).clamp(0, 1)
    return torch.where(wide, share, torch.zeros_like(share))


def module_gate(x: Tensor, live: Tensor, band: Band) -> Tensor:
    """f [G, M] from x [G, M], each module by its own band; 0 where `live` [G, M] says that there is no gradient."""
    return ramp(x, band.lower, band.upper) * live


def pooled_gate(x: Tensor, live: Tensor, band: Band) -> Tensor:
    """One f a row: from the mean x over the open modules, against the means of their leave-one-out edges."""
    opened = band.open()
    if not opened.any():
        return torch.zeros_like(x)
    edges = band.held_lower[opened].mean(), band.held_upper[opened].mean()
    share = ramp(x[:, opened].mean(1), *edges)
    return share[:, None].expand_as(x) * live


@dataclass(frozen=True)
class SplitSettings:
    """`source`: what the direction is built from; `of`: the split whose shares a control matches.

    `sign`: with `advantage_free` x is that of the likelihood's gradient, without the advantage in it.
    """

    name: str
    gate: Literal["module", "pooled", "matched", "uniform", "labels"] = "module"
    source: Literal["pairs", "permuted", "placebo", "activations", "random", "none"] = "pairs"
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
"""`ceiling` sees labels and is a cheat by design; no other does."""


def chosen_splits(names: tuple[str, ...]) -> tuple[SplitSettings, ...]:
    """The splits of these names, each after the one that it matches, which is added where it is not named."""
    wanted = {name for name in names} | {SPLITS[name].of for name in names} - {""}
    return tuple(split for name, split in SPLITS.items() if name in wanted)


@dataclass(frozen=True)
class Extraction:
    """A direction [k, R], its band, and for activations the centre [D] that is taken off first."""

    direction: Tensor
    band: Band
    centre: Tensor | None = None


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


def extract(split: SplitSettings, layout: KnobLayout, sides: PairSides, seed: int, dims: int) -> Extraction:
    """The split's direction and band from the pairs; `layout` is that of what the sides have.

    `seed` decides what is random in it: the direction, or which pairs are swapped.
    """
    rej, cho, centre, build = _prepared(split, layout, sides, seed, dims)
    direction, band = fit_band(layout, rej, cho, build)
    return Extraction(direction, band, centre)


def extract_direction(split: SplitSettings, layout: KnobLayout, sides: PairSides, seed: int, dims: int) -> Tensor:
    """The direction of `extract` alone, [k, R]."""
    rej, cho, _, build = _prepared(split, layout, sides, seed, dims)
    return build(rej, cho)


def _prepared(
    split: SplitSettings, layout: KnobLayout, sides: PairSides, seed: int, dims: int
) -> tuple[Tensor, Tensor, Tensor | None, Build]:
    """Both sides as the split sees them, the centre that was taken off, and how a direction is built."""
    rej, cho, centre = sides.rej, sides.cho, None
    if split.source == "activations":
        centre = torch.cat([rej, cho]).mean(0)
        rej, cho = rej - centre, cho - centre
    if split.source == "permuted":
        rej, cho = swapped_pairs(rej, cho, seed_of(seed, split.name))
    if split.source == "random":
        chosen = own_random_direction(layout, seed, split.name, rej.device)
        return rej, cho, centre, lambda rej, cho: chosen
    return rej, cho, centre, lambda rej, cho: hack_direction(layout, rej, cho, dims)


@cache
def own_random_direction(layout: KnobLayout, seed: int, name: str, device: torch.device) -> Tensor:
    """The random direction of a split: by its name, so that other splits do not change it."""
    return random_direction(layout, seed_of(seed, name)).to(device)


COLLAPSE = 0.25
"""Below this share of the first hkgap a direction has collapsed."""


def refreshed(state: SplitState, new: Extraction) -> tuple[SplitState, str | None]:
    """The state with a new extraction, and the event to log, if there is one.

    On a collapse the extraction from before routing is put back, and stays.
    """
    gap = new.band.hkgap()
    if state.frozen:
        return state, None
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
        return torch.zeros_like(rows.norms), label_shares(rows.labels, live)
    if split.gate == "uniform":
        return torch.zeros_like(rows.norms), uniform_shares(shares[split.of], live)
    if split.gate == "matched":
        direction = own_random_direction(layouts[0], seed, split.name, rows.norms.device)
        x = alignment(layouts[0], rows.gradients, direction, rows.norms)
        return x, matched_shares(x, shares[split.of], live)
    assert state.extraction is not None
    x = _seen(split, state.extraction, layouts, rows)
    gate = pooled_gate if split.gate == "pooled" else module_gate
    return x, gate(x, live, state.extraction.band)


def _seen(
    split: SplitSettings, extraction: Extraction, layouts: tuple[KnobLayout, KnobLayout], rows: LiveRows
) -> Tensor:
    """x [G, M].  An activation has no sign of an advantage in it, a gradient has: each is given or taken it."""
    signs = rows.signs[:, None]
    if extraction.centre is not None:
        assert rows.inputs is not None
        x = alignment(layouts[1], rows.inputs - extraction.centre, extraction.direction)
        return x * signs if split.sign == "signed" else x
    gradients = rows.gradients if split.sign == "signed" else rows.gradients * signs
    return alignment(layouts[0], gradients, extraction.direction, rows.norms)


def routed_gradient(layout: KnobLayout, gradients: Tensor, shares: Tensor) -> Tensor:
    """The sum over rows of f g, [R]; gradients [G, R], shares [G, M]."""
    return (layout.spread(shares) * gradients).sum(0)
