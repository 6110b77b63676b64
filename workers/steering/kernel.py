"""logits += deltas[labels] in one pass over the logits: a Triton kernel on a GPU, torch elsewhere.

A dense bias would be as large as the logits and would have to be made anew whenever the batch changes.  The labels
are a byte a token and stay in the cache, the deltas are a few hundred bytes a row: what is left to move is the logits.
"""

from __future__ import annotations

import torch

from .rows import Rows

try:
    import triton
    import triton.language as tl
except ImportError:  # a machine without a GPU
    triton = None

BLOCK = 4096  # columns a program


def add_deltas(logits: torch.Tensor, rows: Rows, labels: torch.Tensor) -> None:
    """Add to each row of logits [B, V], in place, the delta of each token's cluster.

    `labels` [clusterings, V] as of `LabelTable.labels`.  Rows that are not steered keep their bits.
    Raises: ValueError when the shapes do not fit.
    """
    if logits.shape[0] != len(rows) or logits.shape[1] != labels.shape[1] or logits.stride(1) != 1:
        raise ValueError(f"{len(rows)} rows of {labels.shape[1]} labels do not fit logits of {list(logits.shape)}")
    if logits.is_cuda and triton is not None:
        grid = (logits.shape[0], triton.cdiv(logits.shape[1], BLOCK))
        _add_deltas[grid](
            logits, rows.deltas, rows.places, labels,
            logits.shape[1], logits.stride(0), rows.deltas.stride(0), labels.stride(0), BLOCK=BLOCK,
        )  # fmt: skip
    else:
        bias = rows.deltas.gather(1, labels[rows.places.clamp(min=0).long()].long())
        logits.copy_(torch.where(rows.places[:, None] >= 0, logits + bias, logits))


if triton is not None:

    @triton.jit  # type: ignore[untyped-decorator,unused-ignore]  # Triton reads the signature, not the types
    def _add_deltas(  # type: ignore[no-untyped-def,unused-ignore]
        logits,
        deltas,
        places,
        labels,
        width,
        logits_stride,
        deltas_stride,
        labels_stride,
        BLOCK: tl.constexpr,  # noqa: N803
    ):
        row = tl.program_id(0)
        place = tl.load(places + row)
        if place >= 0:
            columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
            inside = columns < width
            label = tl.load(labels + place.to(tl.int64) * labels_stride + columns, mask=inside, other=0).to(tl.int32)
            delta = tl.load(deltas + row * deltas_stride + label, mask=inside, other=0.0)
            address = logits + row.to(tl.int64) * logits_stride + columns
            logit = tl.load(address, mask=inside, other=0.0)
            tl.store(address, (logit.to(tl.float32) + delta).to(logit.dtype), mask=inside)
