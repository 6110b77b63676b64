"""Whether this machine's kernels keep rows apart to the last bit, asked of the machine itself at start.

Nothing promises it: a kernel may choose its path by a thread's scratch memory, and so by the place of a row.  (So
does float32 attention on x86: half of the rows go through another thread's buffer, and differ.)  A probe of real
shapes costs a fraction of a second, and what fails it is not used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from workers.embedded.target.attention import BUCKETS, batched
from workers.embedded.target.linears import Linear

TRIALS = 2  # of each place


def attention_is_exact(rows: int, heads: int, kv_heads: int, d: int, dtype: torch.dtype) -> bool:
    """Whether batched attention gives a row the same bits in every place and beside any neighbours."""
    draw = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=draw).to(dtype)

    for bucket in BUCKETS:
        # One position less than the bucket, so that the mask does its part; a block of twice the capacity as well.
        mask = torch.zeros(rows, 1, 1, bucket)
        mask[..., -1] = float("-inf")
        row_of = (normal(kv_heads, heads // kv_heads, d), *(normal(kv_heads, BUCKETS[-1], d) for _ in range(2)))

        def placed(row: int, row_of: Sequence[torch.Tensor] = row_of, mask: torch.Tensor = mask) -> torch.Tensor:
            query = normal(rows, *row_of[0].shape)
            keys, values = (normal(rows, kv_heads, BUCKETS[-1] * (1 + row % 2), d) for _ in range(2))
            query[row], keys[row, :, : BUCKETS[-1]], values[row, :, : BUCKETS[-1]] = row_of
            return batched(query, keys, values, mask)[row]

        if not _same_everywhere(placed, rows):
            return False
    return True


def linears_are_exact(linears: Sequence[Linear], rows: int) -> bool:
    """Whether a linear layer of a fixed number of rows gives a row the same bits in every place."""
    draw = torch.Generator().manual_seed(0)

    def normal(count: int, linear: Linear) -> torch.Tensor:
        return torch.randn(count, linear.inputs, generator=draw).to(linear.dtype)

    def exact(linear: Linear) -> bool:
        x = normal(1, linear)

        def placed(row: int) -> torch.Tensor:
            full = normal(rows, linear)
            full[row] = x
            return linear(full)[row]

        return _same_everywhere(placed, rows)

    return all(exact(linear) for linear in linears)


def _same_everywhere(placed: Callable[[int], torch.Tensor], rows: int) -> bool:
    first = placed(0)
    return all(torch.equal(placed(row), first) for row in [*range(rows)] * TRIALS)
