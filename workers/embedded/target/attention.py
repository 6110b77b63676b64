"""Attention and linear layers whose result for a row is a function of that row alone.

One new token in each row attends to that row's own keys and values.  Rows of up to `BATCHED` positions go through one
call over all rows and as many positions as the cache has room for, where this machine gives a row the same bits for
each of these shapes (`determinism`).  All other rows are computed one by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import linear, scaled_dot_product_attention

TYPICAL_ROWS = 16  # the weights' layout is chosen for about so many; any number works
BATCHED = 512  # positions of the longest row that is still batched


class Linear:
    """x [n, inputs] -> x weight^T + bias [n, outputs], with weights in the layout of the kernel that reads them.

    A step of a few rows does little but read weights, and oneDNN reads its own layout a third faster in bfloat16 and
    twice as fast in float32.  `torch.compile` uses the same two operators for the same purpose; where they are missing,
    the plain layout is used.
    """

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        self.inputs, self.dtype = weight.shape[1], weight.dtype
        self._bias = bias
        self._kernel: Any = None
        self._weight = weight
        operators: Any = torch.ops.mkldnn
        # oneDNN takes float32 from AVX2 and bfloat16 from AVX-512 on.
        needed = "avx512_bw" if weight.dtype == torch.bfloat16 else "avx2"
        if torch.cpu.get_capabilities().get(needed, False) and hasattr(operators, "_linear_pointwise"):
            self._kernel = operators._linear_pointwise
            self._weight = operators._reorder_linear_weight(weight, TYPICAL_ROWS)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        if self._kernel is None:
            return linear(x, self._weight, self._bias)
        result: torch.Tensor = self._kernel(x, self._weight, self._bias, "none", [], "")
        return result


@dataclass(frozen=True)
class AttentionPlan:
    """How one step attends, the same for every layer.

    `mask` [rows, 1, 1, positions] float32 is what each row of the batched call may see, None without such a call.
    `single` holds (row, length) of all other rows.
    """

    mask: torch.Tensor | None
    single: tuple[tuple[int, int], ...]


def plan_attention(lengths: Mapping[int, int], rows: int, positions: int, longest: int) -> AttentionPlan:
    """Plan a step for the rows in use; `lengths` maps a row to its positions, that of the new token included.

    Rows of up to `longest` positions are batched: `BATCHED`, or 0 where batches are not exact.  The batched call covers
    `positions`, at least as many as these rows have.
    """
    together = {row: length for row, length in lengths.items() if length <= longest}
    single = tuple((row, length) for row, length in sorted(lengths.items()) if length > longest)
    if not together:
        return AttentionPlan(None, single)
    # Rows outside of this call see everything: their results are discarded, and a row that sees nothing gives NaN.
    seen = torch.full((rows, 1), positions)
    seen[list(together), 0] = torch.tensor(list(together.values()))
    mask = torch.zeros(rows, positions).masked_fill_(torch.arange(positions) >= seen, float("-inf"))
    return AttentionPlan(mask.view(rows, 1, 1, positions), single)


def attend(query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, plan: AttentionPlan) -> torch.Tensor:
    """query [rows, heads, d], keys and values [rows, kv heads, capacity, d] -> [rows, heads * d].

    The result for a row that the plan does not name has no meaning.
    """
    rows, heads, d = query.shape
    # The heads that share a key become the queries of one attention: nothing is repeated, nothing is masked.
    grouped = query.view(rows, keys.shape[1], -1, d)
    out = torch.empty_like(grouped) if plan.mask is None else batched(grouped, keys, values, plan.mask)
    for row, length in plan.single:
        one = slice(row, row + 1)
        out[row] = batched(grouped[one], keys[one], values[one], torch.zeros(1, 1, 1, length))[0]
    return out.reshape(rows, heads * d)


def batched(grouped: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Several rows at once, as far as the mask [rows, 1, 1, positions] goes; grouped is [rows, kv heads, group, d].

    With so few queries, two plain products are faster than the fused kernel, which repacks the keys each time.  They
    copy keys and values that do not lie side by side, so the cache is as long as the mask (`KVCache.fit`).
    """
    positions = mask.shape[3]
    scores = torch.matmul(grouped, keys[:, :, :positions].transpose(2, 3))
    weights = torch.softmax(torch.add(mask, scores, alpha=grouped.shape[3] ** -0.5), -1)
    return torch.matmul(weights.to(grouped.dtype), values[:, :, :positions])


def causal(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """A whole prompt, each token seeing itself and those before: query [heads, n, d], the others [kv heads, n, d]."""
    return scaled_dot_product_attention(query[None], key[None], value[None], is_causal=True, enable_gqa=True)[0]
