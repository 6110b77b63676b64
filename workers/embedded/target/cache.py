"""Keys and values: of the requests that are being decoded, and of finished prompts for the requests to come.

`KVCache` is one block of memory with a row for each request in progress.  `PrefixCache` keeps whole prompts, so that
the next individual with the same questions computes only its new tokens.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from workers.embedded.target.attention import PADDED

GRAIN = 512  # positions; the block grows by multiples of it


@dataclass(frozen=True)
class Prompt:
    """A computed prompt: kv [2, layers, kv heads, tokens, d], the last logits [vocabulary] float32."""

    kv: torch.Tensor
    logits: torch.Tensor

    @property
    def bytes(self) -> int:
        return self.kv.nbytes + self.logits.nbytes


class KVCache:
    """Keys and values, each [layers][rows, kv heads, capacity, d], in a block that grows with the longest request.

    Attention reads up to `PADDED` positions of every row and multiplies what is beyond a row's end by zero.  Old
    numbers do no harm there, but memory that was never written may hold a NaN.  So that part starts as zeros.  The
    rest is only touched where it is used, and takes up memory only then.
    """

    def __init__(self, layers: int, rows: int, kv_heads: int, d: int, dtype: torch.dtype) -> None:
        self.rows = rows
        self._shape = (2, layers, rows, kv_heads)
        self._d, self._dtype = d, dtype
        self._used = [0] * rows
        self._row_numbers = torch.arange(rows)
        self._kv = self._allocate(GRAIN)

    def admit(self, row: int, prompt: torch.Tensor, new_tokens: int) -> None:
        """Copy a prompt's keys and values [2, layers, kv heads, length, d] into a row, with room for its new tokens."""
        length = prompt.shape[3]
        self._used[row] = length + new_tokens
        self._reserve(self._used[row])
        self._kv[:, :, row, :, :length] = prompt

    def release(self, row: int) -> None:
        self._used[row] = 0

    def move(self, row: int, to: int) -> None:
        """Copy what a row holds into a free one, and release it."""
        used = self._used[row]
        self._kv[:, :, to, :, :used] = self._kv[:, :, row, :, :used]
        self._used[to], self._used[row] = used, 0

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

    def _reserve(self, length: int) -> None:
        if length <= self._kv.shape[4]:
            return
        grown = self._allocate(-(-length // GRAIN) * GRAIN)
        for row, used in enumerate(self._used):
            kept = min(used, self._kv.shape[4])
            grown[:, :, row, :, :kept] = self._kv[:, :, row, :, :kept]
        self._kv = grown

    def _allocate(self, capacity: int) -> torch.Tensor:
        block = torch.empty(*self._shape, capacity, self._d, dtype=self._dtype)
        block[:, :, :, :, :PADDED] = 0
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
