"""One Adam for the knobs that train, split into kept and routed shares.

Adam divides by the gradient's own size, so a knob with an Adam of its own that gets 5 % of every gradient moves as
far as one that gets all.  Here the second moment sees the whole gradient; the shares differ in their first moments
only, and both are divided by the same root.  Everything after the root is linear, so the kept share is the whole minus
the routed one, and kept + routed is what trains without routing.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tasks.gpu.routing.layout import KnobLayout


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


def whole_scale(gradient: Tensor, second: Tensor, count: int, adam: Adam) -> tuple[StepScale, Tensor]:
    """The scale of the step number `count` (from 1) and the new second moment, both by the whole gradient [R]."""
    norm = float(gradient.norm())
    clip = adam.largest_norm / norm if adam.largest_norm and norm > adam.largest_norm else 1.0
    clipped = gradient * clip
    second = adam.beta2 * second + (1 - adam.beta2) * clipped * clipped
    root = (second / (1 - adam.beta2**count)).sqrt() + adam.epsilon
    return StepScale(clip, root, count), second


def share_step(share: Share, gradient: Tensor, scale: StepScale, adam: Adam) -> Share:
    """A share after the gradient [R] that it got; a share is linear in its gradients, so shares add up."""
    first = _first(share, gradient, scale, adam)
    return Share(share.value * (1 - adam.rate * adam.decay) - adam.rate * _update(first, scale, adam), first)


def erased_step(
    layout: KnobLayout, share: Share, gradient: Tensor, scale: StepScale, adam: Adam, direction: Tensor
) -> Share:
    """As `share_step`, without the component of the update that is hack-ward along direction [k, R], in each module.

    Of the update, not of the gradient: divided by the root, a gradient without the component has it again.
    """
    first = _first(share, gradient, scale, adam)
    update = _update(first, scale, adam)
    for vector in direction:
        update = update - layout.spread(layout.sums(update * vector).clamp(min=0)) * vector
    return Share(share.value * (1 - adam.rate * adam.decay) - adam.rate * update, first)


def _first(share: Share, gradient: Tensor, scale: StepScale, adam: Adam) -> Tensor:
    return adam.beta1 * share.first + (1 - adam.beta1) * (gradient * scale.clip)


def _update(first: Tensor, scale: StepScale, adam: Adam) -> Tensor:
    return first / (1 - adam.beta1**scale.count) / scale.root


def no_share(total: int, device: torch.device) -> Share:
    """Knobs at zero that got no gradient yet."""
    return Share(torch.zeros(total, device=device), torch.zeros(total, device=device))
