"""Splits: ways of dividing the same gradients between deltaS and deltaS_hack, side by side on the same rollouts.

A split gives each row and module a share f, which goes into the quarantine.  The whole gradient of the row is split,
never its component along the direction: that would be `erase`.

One Adam trains.  Adam divides by the gradient's own size, so a knob with an Adam of its own that gets 5 % of every
gradient moves as far as one that gets all.  Here the second moment sees the whole gradient; the shares differ in their
first moments only, and both are divided by the same root.  Everything after the root is linear, so the kept share is
the whole minus the routed one, and kept + routed moves as without routing: a split changes nothing for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from tasks.route.adapter import KnobLayout
from tasks.route.claims import RANDOM_SPLITS
from tasks.route.directions import THINNEST, Band, Extraction, Source, alignment, random_direction

COLLAPSE = 0.25
"""Below this share of the first hkgap a direction has collapsed."""


@dataclass(frozen=True)
class SplitSettings:
    """`of`: the split whose shares a control matches.

    `sign`: with `advantage_free` x is that of the likelihood's gradient, without the advantage in it.
    """

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
    """What all shares have in common in one step: `clip`, and the root [R] that divides."""

    clip: float
    root: Tensor
    count: int


def no_share(total: int, device: torch.device) -> Share:
    """Knobs at zero that got no gradient yet."""
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
    """A share after the gradient [R] that it got; a share is linear in its gradients, so shares add up.

    `erase` takes something off the update.
    """
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
    """The state with a new extraction, and the event to log, if there is one.

    On a collapse the extraction from before routing is put back, and stays.
    """
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
    x = _seen(split, state.extraction, layouts, rows)
    gate = pooled_gate if split.gate == "pooled" else module_gate
    return x, gate(x, live, state.extraction.band)


def _seen(
    split: SplitSettings, extraction: Extraction, layouts: tuple[KnobLayout, KnobLayout], rows: LiveRows
) -> Tensor:
    """x [G, M].  Activations are multiplied by the advantage's sign.  Gradients have it; `advantage_free` takes it."""
    signs = rows.signs[:, None]
    if extraction.centre is not None:
        assert rows.inputs is not None
        x = alignment(layouts[1], rows.inputs - extraction.centre, extraction.direction)
        return x * signs if split.sign == "signed" else x
    gradients = rows.gradients if split.sign == "signed" else rows.gradients * signs
    return alignment(layouts[0], gradients, extraction.direction, rows.norms)


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
    share = ramp(x[:, opened].mean(1), band.held_lower[opened].mean(), band.held_upper[opened].mean())
    return share[:, None].expand_as(x) * live


def matched_shares(x: Tensor, shares: Tensor, live: Tensor) -> Tensor:
    """The values of `shares` [G, M], in each module given to the rows in the order of x [G, M] instead.

    So as much is routed as by the shares, along another direction.  Rows without a gradient there keep 0.
    """
    # What is not live comes last in both orders, so that the k-th live row gets the k-th live value.
    order = x.masked_fill(~live, torch.inf).argsort(dim=0, stable=True)
    values = shares.masked_fill(~live, torch.inf).sort(dim=0).values
    return torch.zeros_like(shares).scatter(0, order, values).masked_fill(~live, 0)


def uniform_shares(shares: Tensor, live: Tensor) -> Tensor:
    """The mean of `shares` [G, M] over each module's live rows, for every live row."""
    count = live.sum(0).clamp(min=1)
    return (shares * live).sum(0) / count * live


def routed_gradient(layout: KnobLayout, gradients: Tensor, shares: Tensor) -> Tensor:
    """The sum over rows of f g, [R]; gradients [G, R], shares [G, M]."""
    return (layout.spread(shares) * gradients).sum(0)
