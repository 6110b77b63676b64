"""Knobs of all modules in one flat vector [R], and which part of it is whose."""

from __future__ import annotations

from dataclasses import dataclass

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

    @property
    def _alike(self) -> bool:
        """All modules have as many knobs: one kernel on a GPU then does what else takes one for each module."""
        return len(set(self.sizes)) == 1

    def parts(self, flat: Tensor) -> tuple[Tensor, ...]:
        """[..., R] as M tensors [..., r]."""
        return torch.split(flat, list(self.sizes), dim=-1)

    def sums(self, flat: Tensor) -> Tensor:
        """[..., R] summed within each module: [..., M]."""
        if self._alike:
            return flat.reshape(*flat.shape[:-1], len(self.sizes), self.sizes[0]).sum(-1)
        return torch.stack([part.sum(-1) for part in self.parts(flat)], dim=-1)

    def spread(self, values: Tensor) -> Tensor:
        """[..., M]: each module's value at each of its knobs, [..., R]."""
        if self._alike:
            return values.repeat_interleave(self.sizes[0], dim=-1)
        return values.repeat_interleave(torch.tensor(self.sizes, device=values.device), dim=-1)

    def norms(self, flat: Tensor) -> Tensor:
        """The Euclidean norm of each module's part: [..., M]."""
        return self.sums(flat * flat).sqrt()

    def units(self, flat: Tensor) -> Tensor:
        """[..., R] with each module's part of norm 1; a part that is zero stays zero."""
        norms = self.norms(flat)
        return flat / self.spread(torch.where(norms > 0, norms, torch.ones_like(norms)))
