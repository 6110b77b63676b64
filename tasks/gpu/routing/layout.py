"""Knobs of all modules in one flat vector [R], and which part of it is whose."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor


@dataclass(frozen=True)
class KnobLayout:
    """The modules in the order of their parts: `names` and `sizes`, both of length M; R is the sum of the sizes."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]

    @property
    def total(self) -> int:
        return sum(self.sizes)

    def parts(self, flat: Tensor) -> tuple[Tensor, ...]:
        """[..., R] as M tensors [..., r]."""
        return torch.split(flat, list(self.sizes), dim=-1)

    def sums(self, flat: Tensor) -> Tensor:
        """[..., R] summed within each module: [..., M]."""
        if len(set(self.sizes)) == 1:
            return flat.reshape(*flat.shape[:-1], len(self.sizes), self.sizes[0]).sum(-1)
        among, order = _alike(self.sizes, flat.device)
        return torch.cat([flat[..., places].sum(-1) for places in among], dim=-1)[..., order]

    def spread(self, values: Tensor) -> Tensor:
        """[..., M]: each module's value at each of its knobs, [..., R]."""
        return values[..., _owners(self.sizes, values.device)]

    def norms(self, flat: Tensor) -> Tensor:
        """The Euclidean norm of each module's part: [..., M]."""
        return self.sums(flat * flat).sqrt()

    def units(self, flat: Tensor) -> Tensor:
        """[..., R] with each module's part of norm 1; a part that is zero stays zero."""
        norms = self.norms(flat)
        return flat / self.spread(torch.where(norms > 0, norms, torch.ones_like(norms)))


# A model has hundreds of modules of few sizes.  These let a GPU do in a few kernels what else takes some for each one.


@cache
def _owners(sizes: tuple[int, ...], device: torch.device) -> Tensor:
    """The number of the module that each knob belongs to, [R]."""
    return torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes)).to(device)


@cache
def _alike(sizes: tuple[int, ...], device: torch.device) -> tuple[tuple[Tensor, ...], Tensor]:
    """For each size the places of the knobs of its modules, [m, r]; where each module comes in all of these, [M]."""
    ends = torch.tensor(sizes).cumsum(0)
    numbers = {size: [number for number, own in enumerate(sizes) if own == size] for size in dict.fromkeys(sizes)}
    places = tuple(((ends[found] - size)[:, None] + torch.arange(size)).to(device) for size, found in numbers.items())
    return places, torch.tensor([number for found in numbers.values() for number in found]).argsort().to(device)
