"""Whether this machine's kernels keep rows apart to the last bit, asked of the machine itself at start.

Nothing promises it: a kernel may choose its path by a thread's scratch memory, and so by the place of a row or by the
number of threads.  (So does float32 attention in torch's fused kernel on x86: half of the rows go through another
thread's buffer, and differ.)  A probe of real shapes costs a second, and what fails it is not used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch

from workers.embedded.target.attention import BUCKETS, PADDED, Linear, batched, causal

PROMPTS = (5, 40, 171, 300, PADDED + 1, 700)  # tokens
LONG = (300, PADDED + 1, 700)  # positions of rows that go alone


class DeterminismProbe:
    """Asks with random numbers: `counts` are the numbers of threads that must not make a difference either."""

    def __init__(self, counts: Sequence[int]) -> None:
        self._counts = counts
        self._draw = torch.Generator().manual_seed(0)

    def linears(self, linears: Sequence[Linear], rows: int) -> bool:
        """Whether a linear layer of a fixed number of rows gives a row the same bits in every place."""
        return all(self._linear(linear, rows) for linear in linears)

    def batches(self, rows: int, shape: tuple[int, int, int], dtype: torch.dtype) -> bool:
        """Whether batched attention does. `shape` is (heads, kv heads, d)."""
        return all(self._batch(bucket, rows, shape, dtype) for bucket in BUCKETS)

    def singles(self, shape: tuple[int, int, int], dtype: torch.dtype) -> bool:
        """Whether the attention of a row alone is the same in every number of threads."""
        heads, kv_heads, d = shape
        for length in LONG:
            query = self._normal(dtype, 1, kv_heads, heads // kv_heads, d)
            keys, values = (self._normal(dtype, 1, kv_heads, length, d) for _ in range(2))
            mask = torch.zeros(1, 1, 1, length)
            if not self._same([partial(batched, query, keys, values, mask)]):
                return False
        return True

    def prompts(self, shape: tuple[int, int, int], dtype: torch.dtype) -> bool:
        """Whether the attention of a prompt is the same in every number of threads."""
        heads, kv_heads, d = shape
        for length in PROMPTS:
            query, key, value = (self._normal(dtype, count, length, d) for count in (heads, kv_heads, kv_heads))
            if not self._same([partial(causal, query, key, value)]):
                return False
        return True

    def _linear(self, linear: Linear, rows: int) -> bool:
        x = self._normal(linear.dtype, 1, linear.inputs)

        def placed(row: int) -> torch.Tensor:
            full = self._normal(linear.dtype, rows, linear.inputs)
            full[row] = x
            return linear(full)[row]

        return self._same([partial(placed, row) for row in range(rows)])

    def _batch(self, bucket: int, rows: int, shape: tuple[int, int, int], dtype: torch.dtype) -> bool:
        heads, kv_heads, d = shape
        # One position less than the bucket, so that the mask does its part; a block of twice the capacity as well.
        mask = torch.zeros(rows, 1, 1, bucket)
        mask[..., -1] = float("-inf")
        own = (self._normal(dtype, kv_heads, heads // kv_heads, d), *self._normal(dtype, 2, kv_heads, PADDED, d))

        def placed(row: int) -> torch.Tensor:
            query = self._normal(dtype, rows, *own[0].shape)
            keys, values = self._normal(dtype, 2, rows, kv_heads, PADDED * (1 + row % 2), d)
            query[row], keys[row, :, :PADDED], values[row, :, :PADDED] = own
            return batched(query, keys, values, mask)[row]

        return self._same([partial(placed, row) for row in range(rows)])

    def _same(self, ways: Sequence[Callable[[], torch.Tensor]]) -> bool:
        """Whether all ways give the same bits, with each number of threads."""
        before = torch.get_num_threads()
        found = []
        try:
            for count in self._counts:
                torch.set_num_threads(count)
                found += [way().clone() for way in ways]
        finally:
            torch.set_num_threads(before)
        return all(torch.equal(one, found[0]) for one in found)

    def _normal(self, dtype: torch.dtype, *shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=self._draw).to(dtype)
