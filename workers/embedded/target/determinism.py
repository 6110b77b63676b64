"""Under which conditions this machine's kernels compute a row to the same bits, whatever its neighbours hold.

No library promises it.  A kernel may choose its path by a thread's scratch memory, and so by the place of a row or by
the number of threads.  (Float32 attention in torch's fused kernel on x86 does: half of the rows go through another
thread's buffer, and differ.)  `DeterminismProbe` tries real shapes when the server starts, which takes a second, and
the decoder uses only what passes.

The number of threads matters for speed as well.  A step is two hundred short parallel loops, and each ends when its
last thread does.  When another process holds a core, every loop waits for a thread that is not running: two threads
on two cores were up to sixty times slower than one.  With the cores free they are a third faster.  `ThreadTuner`
chooses before each piece of work, where the probe has found that the number of threads changes no bit.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

import torch

from workers.embedded.target.attention import BATCHED, GRAIN, Linear, batched, causal

PROMPTS = (5, 40, 171, 300, BATCHED + 1, 700)  # tokens
LONG = (300, BATCHED + 1, 700)  # positions of rows that are not batched
APART = 4  # one row of so many is under test in a call; between them are others
LOAD = Path("/proc/loadavg")  # "... <running>/<all> ...": threads of the whole machine that run or want to


class DeterminismProbe:
    """Compares results on random numbers.

    `shape` is (heads, kv heads, d).  `counts` are numbers of threads, which must give the same bits too; `sizes` are
    the numbers of rows that a step may have.
    """

    def __init__(self, shape: tuple[int, int, int], dtype: torch.dtype) -> None:
        self._shape, self._dtype = shape, dtype
        self._generator = torch.Generator().manual_seed(0)

    def linears(self, linears: Sequence[Linear], counts: Iterable[int], sizes: Sequence[int]) -> bool:
        """Whether a linear layer gives a row the same bits in every place of any of these numbers of rows."""
        return all(self._linear(linear, counts, sizes) for linear in linears)

    def _linear(self, linear: Linear, counts: Iterable[int], sizes: Sequence[int]) -> bool:
        x = self._normal(1, linear.inputs)

        def placed(rows: int, first: int) -> torch.Tensor:
            full = self._normal(rows, linear.inputs)
            full[first::APART] = x
            return linear(full)[first::APART]

        return _same(counts, [partial(placed, *place) for place in _places(sizes)])

    def batches(self, counts: Iterable[int], sizes: Sequence[int]) -> bool:
        """Whether a row has the same bits in batched attention of all sizes that can hold it."""
        return all(self._batch(length, counts, sizes) for length in (GRAIN - 1, BATCHED // 2 + 1))

    def _batch(self, length: int, counts: Iterable[int], sizes: Sequence[int]) -> bool:
        heads, kv_heads, d = self._shape
        own_query, own = self._normal(kv_heads, heads // kv_heads, d), self._normal(2, kv_heads, BATCHED, d)
        others = self._normal(2, max(sizes), kv_heads, BATCHED, d)

        def placed(positions: int, rows: int, first: int) -> torch.Tensor:
            mask = torch.zeros(rows, 1, 1, positions)
            mask[..., length:] = float("-inf")
            query, block = self._normal(rows, *own_query.shape), others[:, :rows, :, :positions].clone()
            query[first::APART] = own_query
            block[:, first::APART] = own[:, None, :, :positions]
            keys, values = block
            return batched(query, keys, values, mask)[first::APART]

        spans = range(-(-length // GRAIN) * GRAIN, BATCHED + 1, GRAIN)
        return _same(counts, [partial(placed, span, *place) for span in spans for place in _places(sizes)])

    def threads(self, counts: Iterable[int]) -> bool:
        """Whether the attention of a prompt, and of a single row, is the same with every number of threads."""
        heads, kv_heads, d = self._shape
        for length in LONG:
            query = self._normal(1, kv_heads, heads // kv_heads, d)
            keys, values = self._normal(2, 1, kv_heads, length, d)
            if not _same(counts, [partial(batched, query, keys, values, torch.zeros(1, 1, 1, length))]):
                return False
        for length in PROMPTS:
            prompt = [self._normal(count, length, d) for count in (heads, kv_heads, kv_heads)]
            if not _same(counts, [partial(causal, *prompt)], whole=True):
                return False
        return True

    def _normal(self, *shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=self._generator).to(self._dtype)


def _same(counts: Iterable[int], variants: Sequence[Callable[[], torch.Tensor]], whole: bool = False) -> bool:
    """Whether all rows (or the `whole`) of what the variants give have the same bits, with each number of threads."""
    before, results = torch.get_num_threads(), list[torch.Tensor]()
    try:
        for count in counts:
            torch.set_num_threads(count)
            for variant in variants:
                results += [variant().clone()] if whole else variant().clone()
    finally:
        torch.set_num_threads(before)
    return all(torch.equal(result, results[0]) for result in results)


def _places(sizes: Sequence[int]) -> list[tuple[int, int]]:
    """(number of rows, the first of the rows under test): together every place of each number of rows."""
    return [(rows, first) for rows in sizes for first in range(min(APART, rows))]


class ThreadTuner:
    """Sets torch's threads before each piece of work: all of them, or one while other processes need the cores.

    To be used by the engine's thread alone.
    """

    def __init__(self, adaptive: bool, load: Path = LOAD, cores: int | None = None) -> None:
        self._all = torch.get_num_threads()
        self._load = load
        self._cores = cores or os.cpu_count() or 1
        self._adaptive = adaptive and self._all > 1
        if not adaptive:
            torch.set_num_threads(1)

    def choose(self) -> None:
        """Take all threads if the machine has cores for them at this moment, else one."""
        if not self._adaptive:
            return
        current = torch.get_num_threads()
        try:
            running = int(self._load.read_text().split()[3].split("/")[0])
        except OSError:
            running = 0  # not on Linux: assume free cores, as torch does
        # Ours spin for a moment after a loop, so as many as we use may be our own.
        chosen = self._all if max(0, running - current) + self._all <= self._cores else 1
        if chosen != current:
            torch.set_num_threads(chosen)
