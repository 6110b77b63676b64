"""What steers each row of a batch, kept with the batch as it is filtered and merged: no look at the device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn.functional import pad

from .bank import UNSTEERED, LabelTable
from .parameters import Steering


@dataclass(frozen=True, eq=False)
class Rows:
    """`deltas` float32 [B, 1 + K], the first column 0; `places` int32 [B], rows of the `LabelTable`."""

    deltas: torch.Tensor
    places: torch.Tensor

    def __len__(self) -> int:
        return self.places.shape[0]

    def select(self, indices: torch.Tensor) -> Rows:
        """The rows at `indices`, int64 on the same device."""
        return Rows(self.deltas[indices], self.places[indices])


def rows_of(steerings: Sequence[Steering | None], bank: LabelTable, device: torch.device) -> Rows | None:
    """The rows of a new batch; None when none of it is steered.  Copies without waiting for the device."""
    if all(steering is None for steering in steerings):
        return None
    clusters = max(len(steering.deltas) for steering in steerings if steering)
    pinned = device.type == "cuda"
    deltas = torch.zeros(len(steerings), 1 + clusters, pin_memory=pinned)
    for row, steering in zip(deltas, steerings, strict=True):
        if steering is not None:
            row[1 : 1 + len(steering.deltas)] = torch.from_numpy(steering.deltas)
    places = torch.tensor([bank.place(s) for s in steerings], dtype=torch.int32, pin_memory=pinned)
    return Rows(deltas.to(device, non_blocking=True), places.to(device, non_blocking=True))


def joined(first: Rows | None, first_length: int, second: Rows | None, second_length: int) -> Rows | None:
    """The rows of two batches put together, of which either may be without steering."""
    some = second if first is None else first
    if some is None:
        return None
    first = _unsteered(first_length, some) if first is None else first
    second = _unsteered(second_length, some) if second is None else second
    width = max(first.deltas.shape[1], second.deltas.shape[1])
    deltas = [pad(rows.deltas, (0, width - rows.deltas.shape[1])) for rows in (first, second)]
    return Rows(torch.cat(deltas), torch.cat([first.places, second.places]))


def _unsteered(length: int, like: Rows) -> Rows:
    return Rows(
        like.deltas.new_zeros(length, like.deltas.shape[1]),
        torch.full((length,), UNSTEERED, dtype=torch.int32, device=like.places.device),
    )
