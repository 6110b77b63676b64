"""GRPO as Dr.GRPO has it: advantages without the standard deviation, losses with a fixed denominator."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class LossSettings:
    """`clip`: how far the ratio may go from 1; `beta`: the weight of the KL term; `denominator`: of every loss."""

    clip: float
    beta: float
    denominator: float


def group_advantages(rewards: Tensor, groups: Tensor) -> tuple[Tensor, int]:
    """Reward minus the mean of the row's group, [G], and how many groups have no variance (advantage exactly 0)."""
    advantages = torch.zeros_like(rewards)
    skipped = 0
    for group in sorted(set(groups.tolist())):
        rows = groups == group
        own = rewards[rows]
        if bool((own == own[0]).all()):
            skipped += 1
        else:
            advantages[rows] = own - own.mean()
    return advantages, skipped


def policy_losses(
    settings: LossSettings, new: Tensor, mask: Tensor, advantages: Tensor, old: Tensor, reference: Tensor | None
) -> Tensor:
    """The loss of each row [B] that enters the optimizer, its advantage [B] and KL term in it.

    new, old, reference: log-probabilities [B, L].  The KL term is k3: exp(d) - d - 1 with d = reference - new.
    """
    ratio = (new - old).exp()
    advantage = advantages[:, None]
    gained = torch.minimum(ratio * advantage, ratio.clamp(1 - settings.clip, 1 + settings.clip) * advantage)
    if reference is not None:
        difference = reference - new
        gained = gained - settings.beta * (difference.exp() - difference - 1)
    return -(gained * mask).sum(1) / settings.denominator
