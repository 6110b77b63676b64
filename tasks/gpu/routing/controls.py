"""What a real direction is compared with: other directions, other labels, or the same volume without a direction."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor

from tasks.gpu.routing.layout import KnobLayout


def seed_of(*parts: object) -> int:
    """A seed below 2^63 that depends on all parts and on nothing else."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "big") >> 1


def random_direction(layout: KnobLayout, seed: int) -> Tensor:
    """A random unit vector in each module, [1, R], on the CPU."""
    return layout.units(torch.randn(1, layout.total, generator=torch.Generator().manual_seed(seed)))


def swapped_pairs(rej: Tensor, cho: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """Both sides [P, R], swapped in half of the pairs (which half, by the seed)."""
    count = len(rej)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    swap = torch.zeros(count, 1, dtype=torch.bool)
    swap[order[: count // 2]] = True
    swap = swap.to(rej.device)
    return torch.where(swap, cho, rej), torch.where(swap, rej, cho)


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


def label_shares(labels: Tensor, live: Tensor) -> Tensor:
    """f = the label [G], 0 or 1.  No method: it cheats by design, to show what suppression can reach."""
    return labels[:, None].to(live.device) * live.float()
