"""Attention, linear layers, and the keys and values that they read; a row's result is a function of that row alone.

One new token in each row attends to that row's own keys and values.  Rows of up to `BATCHED` positions go through one
call over all rows and as many positions as the cache has room for, where this machine gives a row the same bits for
each of these shapes (`determinism`).  All other rows are computed one by one.

`KVCache` is one block of memory with a row for each request in progress.  `PrefixCache` keeps whole prompts, so that
the next individual with the same questions computes only its new tokens.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
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


GRAIN = 64  # positions; up to `BATCHED` of them the block is a multiple of it


@dataclass(frozen=True)
class Prompt:
    """A computed prompt: kv [2, layers, kv heads, tokens, d], the last logits [vocabulary] float32."""

    kv: torch.Tensor
    logits: torch.Tensor

    @property
    def bytes(self) -> int:
        return self.kv.nbytes + self.logits.nbytes


class KVCache:
    """Keys and values, each [layers][rows, kv heads, capacity, d], in a block as long as the longest row in use.

    Attention reads up to `BATCHED` positions of every row and multiplies what is beyond a row's end by zero.  Old
    numbers do no harm there, but memory that was never written may hold a NaN.  So that part starts as zeros.
    """

    def __init__(self, layers: int, rows: int, kv_heads: int, d: int, dtype: torch.dtype) -> None:
        self.rows = rows
        self._shape = (2, layers, rows, kv_heads)
        self._d, self._dtype = d, dtype
        self._lengths: dict[int, int] = {}
        self._row_numbers = torch.arange(rows)
        self._kv = self._allocate(0)

    def admit(self, row: int, prompt: torch.Tensor) -> None:
        """Copy a prompt's keys and values [2, layers, kv heads, length, d] into a row."""
        length = prompt.shape[3]
        self.fit({**self._lengths, row: length})
        self._kv[:, :, row, :, :length] = prompt

    def release(self, row: int) -> None:
        self._lengths.pop(row, None)

    def move(self, row: int, to: int) -> None:
        """Copy what a row holds into a free one, and release it."""
        length = self._lengths[to] = self._lengths.pop(row)
        self._kv[:, :, to, :, :length] = self._kv[:, :, row, :, :length]

    def fit(self, lengths: Mapping[int, int]) -> None:
        """Have room for these positions by row, and not much more: a step reads the whole block."""
        longest, capacity = max(lengths.values()), self._kv.shape[4]
        grain = GRAIN if longest <= BATCHED else BATCHED
        if not capacity // 2 < (needed := -(-longest // grain) * grain) <= capacity:
            block = self._allocate(needed)
            for row in self._lengths.keys() & lengths.keys():
                length = min(self._lengths[row], lengths[row])
                block[:, :, row, :, :length] = self._kv[:, :, row, :, :length]
            self._kv = block
        self._lengths = dict(lengths)

    @property
    def batched(self) -> int:
        """How many positions of each row a batched call covers."""
        return min(self._kv.shape[4], BATCHED)

    def put(
        self, layer: int, key: torch.Tensor, value: torch.Tensor, positions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write the new key and value [n, kv heads, d] of the first n rows at their positions [n].

        Returns the layer's blocks of these rows.
        """
        rows = self._row_numbers[: len(positions)]
        keys, values = (self._kv[side, layer, : len(positions)] for side in range(2))
        keys[rows, :, positions] = key
        values[rows, :, positions] = value
        return keys, values

    def _allocate(self, capacity: int) -> torch.Tensor:
        block = torch.empty(*self._shape, capacity, self._d, dtype=self._dtype)
        block[:, :, :, :, :BATCHED] = 0
        return block


class PrefixCache:
    """Prompts by their exact token ids, within a limit of bytes; the least recently used are dropped first.

    A prompt larger than the limit is not kept.  Safe to use from several threads: the engine adds prompts, and the
    HTTP server may flush them.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._prompts: OrderedDict[bytes, Prompt] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, ids: Sequence[int]) -> Prompt | None:
        with self._lock:
            prompt = self._prompts.get(_key(ids))
            if prompt is not None:
                self._prompts.move_to_end(_key(ids))
            return prompt

    def put(self, ids: Sequence[int], prompt: Prompt) -> None:
        with self._lock:
            if prompt.bytes > self._limit or _key(ids) in self._prompts:
                return
            self._prompts[_key(ids)] = prompt
            self._bytes += prompt.bytes
            while self._bytes > self._limit:
                self._bytes -= self._prompts.popitem(last=False)[1].bytes

    def flush(self) -> None:
        with self._lock:
            self._prompts.clear()
            self._bytes = 0

    @property
    def bytes(self) -> int:
        return self._bytes

    def __len__(self) -> int:
        return len(self._prompts)


def _key(ids: Sequence[int]) -> bytes:
    return np.asarray(ids, dtype=np.int32).tobytes()
