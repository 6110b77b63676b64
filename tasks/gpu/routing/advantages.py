"""GRPO as Dr.GRPO has it: advantages without the standard deviation, losses with a fixed denominator.

A step has one update, at the knobs that sampled: the ratio to the sampling policy is 1, and its gradient that of the
log-probability.
"""

from __future__ import annotations

import torch
from torch import Tensor


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
    new: Tensor, mask: Tensor, advantages: Tensor, denominator: float, reference: Tensor | None, beta: float
) -> Tensor:
    """The loss of each row [B] that enters the optimizer, its advantage [B] and KL term in it.

    new, reference: log-probabilities [B, L].  The KL term is k3: exp(d) - d - 1 with d = reference - new.
    """
    gained = new * advantages[:, None]
    if reference is not None:
        difference = reference - new
        gained = gained - beta * (difference.exp() - difference - 1)
    return -(gained * mask).sum(1) / denominator
