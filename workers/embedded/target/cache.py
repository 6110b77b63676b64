"""Keys and values: of the requests that are being decoded, and of finished prompts for the requests to come.

`KVCache` is one block of memory with a row for each request in progress.  `PrefixCache` keeps whole prompts, so that
the next individual with the same questions computes only its new tokens.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from workers.embedded.target.attention import BATCHED

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
