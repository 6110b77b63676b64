"""Attention of one new token in each row, over that row's own keys and values.

A row's arithmetic must be a function of the row alone.  Short rows are padded to a bucket that their own length
chooses and go through one call of a fixed batch shape, where this machine does that exactly (see `exactness`); all
others go alone.  Either way the shape that a row sees never depends on its neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch.nn.functional import scaled_dot_product_attention

BUCKETS = (256, 512)  # positions; the last is the longest row that is still batched
PADDED = BUCKETS[-1]


@dataclass(frozen=True)
class Call:
    """One batched call: rows of one bucket, and what each of all rows may see, [rows, 1, 1, bucket]."""

    bucket: int
    rows: torch.Tensor
    mask: torch.Tensor


@dataclass(frozen=True)
class Plan:
    """The calls of one step, the same for every layer. `alone` holds (row, length)."""

    calls: tuple[Call, ...]
    alone: tuple[tuple[int, int], ...]


def plan(lengths: Mapping[int, int], rows: int, dtype: torch.dtype, longest: int) -> Plan:
    """Plan a step for the rows in use; `lengths` maps a row to its positions, that of the new token included.

    Rows of up to `longest` positions are batched: the last of `BUCKETS`, or 0 where batches are not exact.
    """
    members: dict[int, list[int]] = {}
    for row, length in sorted(lengths.items()):
        if length <= longest:
            members.setdefault(next(bucket for bucket in BUCKETS if length <= bucket), []).append(row)
    calls = tuple(_call(bucket, inside, lengths, rows, dtype) for bucket, inside in sorted(members.items()))
    alone = tuple((row, length) for row, length in sorted(lengths.items()) if length > longest)
    return Plan(calls, alone)


def _call(bucket: int, inside: list[int], lengths: Mapping[int, int], rows: int, dtype: torch.dtype) -> Call:
    # Rows of no concern here see everything: their results are thrown away, and a row that sees nothing gives NaN.
    seen = torch.full((rows, 1), bucket)
    seen[inside, 0] = torch.tensor([lengths[row] for row in inside])
    mask = torch.zeros(rows, bucket, dtype=dtype).masked_fill_(torch.arange(bucket) >= seen, float("-inf"))
    return Call(bucket, torch.tensor(inside), mask.view(rows, 1, 1, bucket))


def attend(query: torch.Tensor, kv: torch.Tensor, steps: Plan) -> torch.Tensor:
    """query [rows, heads, d], kv [rows, 2, kv heads, capacity, d] -> [rows, heads * d]; unused rows are zero."""
    rows, heads, d = query.shape
    # The heads that share a key become the queries of one attention: nothing is repeated, nothing is masked.
    grouped = query.view(rows, kv.shape[2], -1, d)
    out = torch.zeros_like(grouped)
    for call in steps.calls:
        out[call.rows] = batched(grouped, kv, call.mask)[call.rows]
    for row, length in steps.alone:
        keys, values = kv[row : row + 1, 0, :, :length], kv[row : row + 1, 1, :, :length]
        out[row] = scaled_dot_product_attention(grouped[row : row + 1], keys, values)[0]
    return out.reshape(rows, heads * d)


def batched(grouped: torch.Tensor, kv: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """All rows at once, as far as the mask [rows, 1, 1, bucket] goes: grouped [rows, kv heads, group, d] and back."""
    bucket = mask.shape[3]
    return scaled_dot_product_attention(grouped, kv[:, 0, :, :bucket], kv[:, 1, :, :bucket], attn_mask=mask)
