"""The steering of a batch, logits += deltas[labels], kept with the batch while requests join and leave it.

The server holds the labels of each clustering once, on its device (`LabelTable`).  Each row of a batch has a row of
that table and its own deltas (`BatchSteering`).  Building, filtering and merging these never waits for the device.  A
Triton kernel adds the deltas on a GPU, in one pass over the logits; torch does it elsewhere.  A dense bias would be
as large as the logits and would have to be built again whenever the batch changes; labels are one byte a token, and
the deltas of a row are a few hundred bytes.  They have been multiplied by the request's strength when it arrived.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn.functional import pad

from .request import Steering

try:
    import triton
    import triton.language as tl
except ImportError:  # a machine without a GPU
    triton = None

UNSTEERED = -1  # the table row of a request that asks for no steering
BLOCK = 4096  # columns of logits for one program of the kernel


class LabelTable:
    """One row of labels for each clustering, in the order of arrival: tensor [clusterings, width].

    Labels are shifted by one.  0 means "no cluster" and belongs to the columns that a model's logits have beyond its
    tokenizer; `BatchSteering` has a delta of zero for it.
    """

    def __init__(self) -> None:
        self._rows: dict[str, int] = {}
        self._steerings: list[Steering] = []
        self._stacked: torch.Tensor | None = None

    def row(self, steering: Steering | None) -> int:
        """The row of a steering's clustering, a new one for a new clustering; UNSTEERED for None."""
        if steering is None:
            return UNSTEERED
        if steering.clustering not in self._rows:
            self._rows[steering.clustering] = len(self._steerings)
            self._steerings.append(steering)
        return self._rows[steering.clustering]

    def labels(self, width: int, device: torch.device) -> torch.Tensor:
        """All rows as uint8 (int32 when a clustering has over 255 clusters) [clusterings, width].

        Moving them to the device waits for it, once for each new clustering.
        Raises: ValueError when a clustering has more labels than `width`.
        """
        stacked = self._stacked
        if stacked is None or stacked.shape != (len(self._steerings), width) or stacked.device != device:
            self._stacked = stacked = self._stack(width).to(device)
        return stacked

    def _stack(self, width: int) -> torch.Tensor:
        highest = max(int(steering.labels.max()) for steering in self._steerings) + 1
        stacked = torch.zeros(len(self._steerings), width, dtype=torch.uint8 if highest <= 255 else torch.int32)
        for row, steering in zip(stacked, self._steerings, strict=True):
            if len(steering.labels) > width:
                raise ValueError(f"{len(steering.labels)} labels do not fit a vocabulary of {width}")
            row[: len(steering.labels)] = torch.from_numpy(steering.labels.astype("int64") + 1)
        return stacked


@dataclass(frozen=True, eq=False)
class BatchSteering:
    """`deltas` float32 [B, 1 + K], the first column 0; `label_rows` int32 [B], rows of the `LabelTable`."""

    deltas: torch.Tensor
    label_rows: torch.Tensor

    def __len__(self) -> int:
        return self.label_rows.shape[0]

    def select(self, indices: torch.Tensor) -> BatchSteering:
        """The rows at `indices`, int64 on the same device."""
        return BatchSteering(self.deltas[indices], self.label_rows[indices])


def batch_steering(
    steerings: Sequence[Steering | None], table: LabelTable, device: torch.device
) -> BatchSteering | None:
    """The steering of a new batch; None when no request of it is steered.  Copies without waiting for the device."""
    if all(steering is None for steering in steerings):
        return None
    clusters = max(len(steering.deltas) for steering in steerings if steering)
    pinned = device.type == "cuda"
    deltas = torch.zeros(len(steerings), 1 + clusters, pin_memory=pinned)
    for row, steering in zip(deltas, steerings, strict=True):
        if steering is not None:
            row[1 : 1 + len(steering.deltas)] = torch.from_numpy(steering.deltas)
    label_rows = torch.tensor([table.row(s) for s in steerings], dtype=torch.int32, pin_memory=pinned)
    return BatchSteering(deltas.to(device, non_blocking=True), label_rows.to(device, non_blocking=True))


def merge_batches(
    first: BatchSteering | None, first_length: int, second: BatchSteering | None, second_length: int
) -> BatchSteering | None:
    """The steering of two batches put together, of which either may be without steering."""
    like = second if first is None else first
    if like is None:
        return None
    first = _unsteered(first_length, like) if first is None else first
    second = _unsteered(second_length, like) if second is None else second
    width = max(first.deltas.shape[1], second.deltas.shape[1])
    deltas = [pad(batch.deltas, (0, width - batch.deltas.shape[1])) for batch in (first, second)]
    return BatchSteering(torch.cat(deltas), torch.cat([first.label_rows, second.label_rows]))


def _unsteered(length: int, like: BatchSteering) -> BatchSteering:
    return BatchSteering(
        like.deltas.new_zeros(length, like.deltas.shape[1]),
        torch.full((length,), UNSTEERED, dtype=torch.int32, device=like.label_rows.device),
    )


def add_deltas(logits: torch.Tensor, batch: BatchSteering, labels: torch.Tensor) -> None:
    """Add to each row of logits [B, V], in place, the delta of each token's cluster.

    `labels` [clusterings, V] as of `LabelTable.labels`.  Rows that are not steered are not changed by a bit.
    Raises: ValueError when the shapes do not fit.
    """
    if logits.shape[0] != len(batch) or logits.shape[1] != labels.shape[1] or logits.stride(1) != 1:
        raise ValueError(f"{len(batch)} rows of {labels.shape[1]} labels do not fit logits of {list(logits.shape)}")
    if logits.is_cuda and triton is not None:
        grid = (logits.shape[0], triton.cdiv(logits.shape[1], BLOCK))
        _add_deltas[grid](
            logits, batch.deltas, batch.label_rows, labels,
            logits.shape[1], logits.stride(0), batch.deltas.stride(0), labels.stride(0), BLOCK=BLOCK,
        )  # fmt: skip
    else:
        bias = batch.deltas.gather(1, labels[batch.label_rows.clamp(min=0).long()].long())
        logits.copy_(torch.where(batch.label_rows[:, None] >= 0, logits + bias, logits))


if triton is not None:

    @triton.jit  # type: ignore[untyped-decorator,unused-ignore]  # Triton reads the signature, not the types
    def _add_deltas(  # type: ignore[no-untyped-def,unused-ignore]
        logits,
        deltas,
        label_rows,
        labels,
        width,
        logits_stride,
        deltas_stride,
        labels_stride,
        BLOCK: tl.constexpr,  # noqa: N803
    ):
        row = tl.program_id(0)
        label_row = tl.load(label_rows + row)
        if label_row >= 0:
            columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
            inside = columns < width
            label = tl.load(labels + label_row.to(tl.int64) * labels_stride + columns, mask=inside, other=0).to(
                tl.int32
            )
            delta = tl.load(deltas + row * deltas_stride + label, mask=inside, other=0.0)
            address = logits + row.to(tl.int64) * logits_stride + columns
            logit = tl.load(address, mask=inside, other=0.0)
            tl.store(address, (logit.to(tl.float32) + delta).to(logit.dtype), mask=inside)
