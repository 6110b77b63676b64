"""The gate: the share f of a row's gradient that goes into the quarantine, from x and the band.

The whole gradient of the row is split, never its component along the direction: that would be `erase`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tasks.gpu.routing.band import THINNEST, Band


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
