"""The hack-ward direction of each module, from the pairs' gradients, and how far a gradient points along it.

Both sides are gradients of the negative log-likelihood, and so of a loss, as a live row's is.  So rej - cho is
hack-ward: the loss gradient of a rewarded hack has a positive cosine with it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tasks.gpu.routing.layout import KnobLayout


def mean_direction(layout: KnobLayout, rej: Tensor, cho: Tensor) -> Tensor:
    """The unit mean difference, [1, R], from gradients [P, R] of both sides; zero for a module without a difference."""
    return layout.units((rej - cho).mean(0, keepdim=True))


def top_directions(layout: KnobLayout, rej: Tensor, cho: Tensor, count: int) -> Tensor:
    """The leading right singular vectors of the differences in each module, [count, R], turned hack-ward.

    Each points where most pairs' differences do; a tie is decided by the mean difference.
    A module with fewer directions than `count` has zeros for the rest.
    """
    found: list[Tensor] = []
    for differences in layout.parts(rej - cho):
        _, values, right = torch.linalg.svd(differences, full_matrices=False)
        kept = right[:count] * (values[:count] > 1e-6 * values[0].clamp(min=1e-30))[:, None]
        along = differences @ kept.T
        votes = along.sign().sum(0)
        turned = torch.where(votes != 0, votes, along.mean(0)).sign()
        kept = kept * torch.where(turned != 0, turned, torch.ones_like(turned))[:, None]
        missing = torch.zeros(count - len(kept), differences.shape[1], device=kept.device)
        found.append(torch.cat([kept, missing]))
    return torch.cat(found, dim=1)


def hack_direction(layout: KnobLayout, rej: Tensor, cho: Tensor, dims: int) -> Tensor:
    """[dims, R]: `mean_direction` for 1, else `top_directions`."""
    return mean_direction(layout, rej, cho) if dims == 1 else top_directions(layout, rej, cho, dims)


def alignment(layout: KnobLayout, gradients: Tensor, direction: Tensor, norms: Tensor | None = None) -> Tensor:
    """x [G, M] of gradients [G, R]: the cosine with direction [1, R], or |relu(V g)| / |g| with several, [k, R].

    0 where the gradient is 0.  `norms` [G, M] are those of the gradients, where they are known.
    """
    along = torch.stack([layout.sums(gradients * vector) for vector in direction])
    length = along[0] if len(direction) == 1 else along.clamp(min=0).square().sum(0).sqrt()
    norms = layout.norms(gradients) if norms is None else norms
    return torch.where(norms > 0, length / torch.where(norms > 0, norms, torch.ones_like(norms)), 0.0)
