"""Splits: ways of dividing the same gradients between deltaS and deltaS_hack, side by side on the same rollouts.

A split gives each row and module a share f [G, M], which goes into the quarantine.  The whole gradient of the row is
split, never its component along the direction: that would be `erase`.  `live` [G, M] is false where a row has no
gradient in a module; f is 0 there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from tasks.route.adapter import KnobLayout
from tasks.route.claims import RANDOM_SPLITS
from tasks.route.directions import THINNEST, Extraction, Source, alignment, random_direction


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
class LiveRows:
    """What splits see of the rows of one step.

    gradients [G, R] and the norm of each module's part, `norms` [G, M]; signs [G] of the advantages; inputs [G, D]
    where a split needs them; labels [G], which only `ceiling` reads.
    """

    gradients: Tensor
    norms: Tensor
    signs: Tensor
    inputs: Tensor
    labels: Tensor

    @property
    def live(self) -> Tensor:
        """Where a module's gradient is not zero, [G, M]."""
        return self.norms > 0


def route(
    split: SplitSettings,
    extraction: Extraction | None,
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
    assert extraction is not None
    signs = rows.signs[:, None]
    if extraction.centre is not None:  # an activation has no advantage in it, as a gradient has: it is given its sign
        x = alignment(layouts[1], rows.inputs - extraction.centre, extraction.direction) * signs
    else:
        gradients = rows.gradients * signs if split.sign == "advantage_free" else rows.gradients
        x = alignment(layouts[0], gradients, extraction.direction, rows.norms)
    gate = pooled_gate if split.gate == "pooled" else module_gate
    return x, gate(x, live, extraction)


def ramp(x: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """clamp((x - lower) / (upper - lower), 0, 1); 0 where the band is thin or inverted."""
    width = upper - lower
    wide = width >= THINNEST
    share = ((x - lower) / torch.where(wide, width, torch.ones_like(width))).clamp(0, 1)
    return torch.where(wide, share, torch.zeros_like(share))


def module_gate(x: Tensor, live: Tensor, band: Extraction) -> Tensor:
    """Each module by its own band."""
    return ramp(x, band.lower, band.upper) * live


def pooled_gate(x: Tensor, live: Tensor, band: Extraction) -> Tensor:
    """One f a row: from the mean x over the open modules, against the means of their leave-one-out edges."""
    opened = band.open()
    if not opened.any():
        return torch.zeros_like(x)
    share = ramp(x[:, opened].mean(1), band.held_lower[opened].mean(), band.held_upper[opened].mean())
    return share[:, None].expand_as(x) * live


def matched_shares(x: Tensor, shares: Tensor, live: Tensor) -> Tensor:
    """The values of `shares` [G, M], in each module given to the rows in the order of x instead.

    So as much is routed as by the shares, along another direction.
    """
    # What is not live comes last in both orders, so that the k-th live row gets the k-th live value.
    order = x.masked_fill(~live, torch.inf).argsort(dim=0, stable=True)
    values = shares.masked_fill(~live, torch.inf).sort(dim=0).values
    return torch.zeros_like(shares).scatter(0, order, values).masked_fill(~live, 0)


def uniform_shares(shares: Tensor, live: Tensor) -> Tensor:
    count = live.sum(0).clamp(min=1)
    return (shares * live).sum(0) / count * live
