"""The band: between which two cosines a row's gradient is split.  Both edges come from the pairs alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from tasks.gpu.routing.direction import alignment
from tasks.gpu.routing.layout import KnobLayout

THINNEST = 0.02
"""A module whose edges are closer than this, or inverted, routes nothing."""

Build = Callable[[Tensor, Tensor], Tensor]
"""(rej [P, R], cho [P, R]) -> direction [k, R]."""


@dataclass(frozen=True)
class Band:
    """Edges for each module, [M]: mean x of the honest (`lower`) and of the hacking side (`upper`) of the pairs.

    `lower` and `upper` are of the pairs that the direction was built from.  For the `held_` ones the direction was
    built from the other pairs, each time.
    """

    lower: Tensor
    upper: Tensor
    held_lower: Tensor
    held_upper: Tensor

    def open(self) -> Tensor:
        """Which modules route, [M] bool."""
        return self.upper - self.lower >= THINNEST

    def hkgap(self) -> float:
        """The mean width.  Positive by construction, so no evidence: `separation` is."""
        return float((self.upper - self.lower).mean())

    def separation(self) -> float:
        """The mean leave-one-out width."""
        return float((self.held_upper - self.held_lower).mean())


def fit_band(layout: KnobLayout, rej: Tensor, cho: Tensor, build: Build) -> tuple[Tensor, Band]:
    """The direction that `build` makes of the pairs' gradients, [P, R] for each side, and its band."""
    count = len(rej)
    if count < 2:
        raise ValueError("a band needs at least two pairs: one is held out")
    direction = build(rej, cho)
    held_lower, held_upper = [], []
    for pair in range(count):
        others = torch.arange(count, device=rej.device) != pair
        without = build(rej[others], cho[others])
        held_lower.append(alignment(layout, cho[pair : pair + 1], without))
        held_upper.append(alignment(layout, rej[pair : pair + 1], without))
    return direction, Band(
        alignment(layout, cho, direction).mean(0),
        alignment(layout, rej, direction).mean(0),
        torch.cat(held_lower).mean(0),
        torch.cat(held_upper).mean(0),
    )
