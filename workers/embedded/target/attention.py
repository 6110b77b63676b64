"""Attention, linear layers, and the keys and values that they read; a row's result is a function of that row alone.

Rows of up to `BATCHED` positions go through one call over all rows and as many positions as their block has room for,
where this machine gives a row the same bits for each of these shapes (`Decoder.calibrate`).  Others go one by one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import linear, scaled_dot_product_attention

TYPICAL_ROWS = 16  # the weights' layout is chosen for about so many; any number works
BATCHED = 512  # positions of the longest row that is still batched
GRAIN = 64  # positions; the block of the batched rows is a multiple of it


class Linear:
    """x [n, inputs] -> x weight^T + bias [n, outputs], with weights in the layout of the kernel that reads them.

    A step of a few rows does little but read weights, and oneDNN reads its own layout a third faster in bfloat16 and
    twice as fast in float32.  Where the operators that `torch.compile` uses are missing, the plain layout is used.
    """

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        self._weight, self._bias = weight, bias
        self._kernel: Any = None
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


def batched(grouped: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Several rows at once, as far as the mask [rows, 1, 1, positions] goes; grouped is [rows, kv heads, group, d]."""
    positions = mask.shape[3]
    # With so few queries, two plain products are faster than the fused kernel, which repacks the keys each time.
    scores = torch.matmul(grouped, keys[:, :, :positions].transpose(2, 3))
    weights = torch.softmax(torch.add(mask, scores, alpha=grouped.shape[3] ** -0.5), -1)
    return torch.matmul(weights.to(grouped.dtype), values[:, :, :positions])


def causal(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """A whole prompt, each token seeing itself and those before: query [heads, n, d], the others [kv heads, n, d]."""
    return scaled_dot_product_attention(query[None], key[None], value[None], is_causal=True, enable_gqa=True)[0]


@dataclass(frozen=True)
class Prompt:
    """A computed prompt: kv [2, layers, kv heads, tokens, d], the last logits [vocabulary] float32."""

    kv: torch.Tensor
    logits: torch.Tensor

    @property
    def nbytes(self) -> int:
        return self.kv.nbytes + self.logits.nbytes


class PrefixCache:
    """Whole prompts by their exact token ids, within a limit of bytes; the least recently used are dropped first."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit, self._bytes = limit_bytes, 0
        self._prompts: OrderedDict[tuple[int, ...], Prompt] = OrderedDict()

    def get(self, ids: Sequence[int]) -> Prompt | None:
        if (key := tuple(ids)) in self._prompts:
            self._prompts.move_to_end(key)
        return self._prompts.get(key)

    def put(self, ids: Sequence[int], prompt: Prompt) -> None:
        if prompt.nbytes > self._limit:
            return
        self._prompts[tuple(ids)] = prompt
        self._bytes += prompt.nbytes
        while self._bytes > self._limit:
            self._bytes -= self._prompts.popitem(last=False)[1].nbytes


@dataclass(frozen=True)
class AttentionPlan:
    """How one step attends, the same for every layer."""

    positions: torch.Tensor  # int64 [rows]: where each row's new key goes in the block
    mask: torch.Tensor | None  # float32 [rows, 1, 1, positions]: what rows of the batched call see; None without one
    single: tuple[tuple[int, int], ...]  # (row, length) of all others


class KVCache:
    """Keys and values of the rows, and the attention of a step to them.

    Rows of up to `BATCHED` positions share one block [2, layers, rows, kv heads, positions, d], as long as the longest
    of them; it starts as zeros, as what is beyond a row's end is multiplied by zero.  A longer row has its own tensor.
    """

    def __init__(self, layers: int, rows: int, kv_heads: int, d: int, dtype: torch.dtype) -> None:
        self.rows = rows
        self._row_numbers = torch.arange(rows)
        self._lengths: dict[int, int] = {}
        self._block = torch.zeros(2, layers, rows, kv_heads, GRAIN, d, dtype=dtype)
        self._long: dict[int, torch.Tensor] = {}  # by row, [2, layers, kv heads, positions, d]

    def admit(self, row: int, prompt: torch.Tensor) -> None:
        """Copy a prompt's keys and values [2, layers, kv heads, length, d] into a row."""
        self.release(row)
        self._fit({**self._lengths, row: prompt.shape[3]})
        self._of(row)[:, :, :, : prompt.shape[3]] = prompt

    def release(self, row: int) -> None:
        self._lengths.pop(row, None)
        self._long.pop(row, None)

    def move(self, row: int, to: int) -> None:
        """Give what a row holds to a free one."""
        length = self._lengths[to] = self._lengths.pop(row)
        if row in self._long:
            self._long[to] = self._long.pop(row)
        else:
            self._block[:, :, to, :, :length] = self._block[:, :, row, :, :length]

    def plan(self, lengths: Mapping[int, int], rows: int, longest: int) -> AttentionPlan:
        """Plan a step of the first `rows` rows, of which those of up to `longest` positions are batched.

        `lengths` maps each row in use to its positions, the new one included.
        """
        self._fit(lengths)
        capacity = self._block.shape[4]
        ends = torch.ones(rows, dtype=torch.int64)
        ends[list(lengths)] = torch.tensor(list(lengths.values()))
        positions = (ends - 1).clamp(max=capacity - 1)  # of a longer row, whose place in the block nobody reads
        together = {row: length for row, length in lengths.items() if length <= longest}
        single = tuple((row, length) for row, length in sorted(lengths.items()) if length > longest)
        if not together:
            return AttentionPlan(positions, None, single)
        # Rows outside of this call see everything: their results are discarded, and a row that sees nothing gives NaN.
        seen = torch.full((rows, 1), capacity)
        seen[list(together), 0] = torch.tensor(list(together.values()))
        mask = torch.zeros(rows, capacity).masked_fill_(torch.arange(capacity) >= seen, float("-inf"))
        return AttentionPlan(positions, mask.view(rows, 1, 1, capacity), single)

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, plan: AttentionPlan
    ) -> torch.Tensor:
        """query [rows, heads, d] with the new key and value [rows, kv heads, d] -> [rows, heads * d]."""
        rows, heads, d = query.shape
        keys, values = (self._block[side, layer, :rows] for side in range(2))
        keys[self._row_numbers[:rows], :, plan.positions] = key
        values[self._row_numbers[:rows], :, plan.positions] = value
        # The heads that share a key become the queries of one attention: nothing is repeated, nothing is masked.
        grouped = query.view(rows, keys.shape[1], -1, d)
        out = torch.empty_like(grouped) if plan.mask is None else batched(grouped, keys, values, plan.mask)
        for row, length in plan.single:
            own_keys, own_values = self._of(row)[:, layer]
            own_keys[:, length - 1], own_values[:, length - 1] = key[row], value[row]
            nothing_hidden = torch.zeros(1, 1, 1, length)
            out[row] = batched(grouped[row : row + 1], own_keys[None], own_values[None], nothing_hidden)[0]
        return out.reshape(rows, heads * d)

    def _of(self, row: int) -> torch.Tensor:
        return self._long[row] if row in self._long else self._block[:, :, row]

    def _fit(self, lengths: Mapping[int, int]) -> None:
        """Have room for these positions by row, and not much more: a step reads the whole block."""
        kept = {row: min(self._lengths[row], lengths[row]) for row in self._lengths.keys() & lengths.keys()}
        self._long = {row: own for row, own in self._long.items() if row in kept}
        layers, heads, d = self._block.shape[1], self._block.shape[3], self._block.shape[5]
        for row, length in lengths.items():
            if length > BATCHED and self._of(row).shape[3] < length:
                own = self._block.new_empty(2, layers, heads, -(-length // BATCHED) * BATCHED, d)
                if row in kept:
                    own[:, :, :, : kept[row]] = self._of(row)[:, :, :, : kept[row]]
                self._long[row] = own
        longest = max((length for length in lengths.values() if length <= BATCHED), default=1)
        needed, capacity = -(-longest // GRAIN) * GRAIN, self._block.shape[4]
        if not capacity // 2 < needed <= capacity:
            block = self._block.new_zeros(2, layers, self.rows, heads, needed, d)
            for row in kept.keys() - self._long.keys():
                block[:, :, row, :, : kept[row]] = self._block[:, :, row, :, : kept[row]]
            self._block = block
        self._lengths = dict(lengths)
