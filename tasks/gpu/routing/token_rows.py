"""Rows: a prompt and a completion in token ids, and many of them padded into one batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class TokenRow:
    """A prompt and what came after it, both at least one token."""

    prompt: tuple[int, ...]
    completion: tuple[int, ...]


@dataclass(frozen=True)
class RowBatch:
    """B rows, padded on the right to T tokens; completions to L.

    ids [B, T]; targets [B, L] are the completions' tokens, mask [B, L] is 1 where one is, and
    `before` [B, L] the position that predicts it.
    """

    ids: Tensor
    targets: Tensor
    mask: Tensor
    before: Tensor

    def completion_positions(self) -> Tensor:
        """1 where `ids` has a token of the completion, [B, T]."""
        where = torch.zeros_like(self.ids)
        return where.scatter_reduce(1, self.before + 1, self.mask.long(), reduce="amax")


def longest_completion(rows: Sequence[TokenRow]) -> int:
    return max(len(row.completion) for row in rows)


def pad_rows(rows: Sequence[TokenRow], length: int, device: torch.device) -> RowBatch:
    """Padded on the right, where causal attention does not look; completions to `length`."""
    total = max(len(row.prompt) + len(row.completion) for row in rows)
    ids = torch.zeros(len(rows), total, dtype=torch.long)
    targets = torch.zeros(len(rows), length, dtype=torch.long)
    mask = torch.zeros(len(rows), length)
    before = torch.zeros(len(rows), length, dtype=torch.long)
    for number, row in enumerate(rows):
        tokens = row.prompt + row.completion
        ids[number, : len(tokens)] = torch.tensor(tokens)
        count = len(row.completion)
        targets[number, :count] = torch.tensor(row.completion)
        mask[number, :count] = 1
        before[number, :count] = torch.arange(count) + len(row.prompt) - 1
    return RowBatch(ids.to(device), targets.to(device), mask.to(device), before.to(device))
