"""The keys and values of the rows that are being decoded, in one block that grows with the longest request."""

from __future__ import annotations

import torch

from workers.embedded.target.attention import PADDED

GRAIN = 512  # positions; the block grows by whole grains


class Rows:
    """Keys and values, each [layers][rows, kv heads, capacity, d]. Positions beyond a row's end are never unset.

    Attention reads up to `PADDED` positions of every row and multiplies what lies beyond a row's end by zero: old
    numbers do no harm there, but memory that was never written may hold a NaN. So that part starts as zeros; the
    rest is only touched where it is used, and costs memory only then.
    """

    def __init__(self, layers: int, rows: int, kv_heads: int, d: int, dtype: torch.dtype) -> None:
        self.count = rows
        self._shape = (2, layers, rows, kv_heads)
        self._d, self._dtype = d, dtype
        self._used = [0] * rows
        self._numbers = torch.arange(rows)
        self._kv = self._block(GRAIN)

    def admit(self, row: int, prompt: torch.Tensor, room: int) -> None:
        """Copy a prompt's keys and values [2, layers, kv heads, length, d] into a row, with room for all to come."""
        length = prompt.shape[3]
        self._used[row] = length + room
        self._reserve(self._used[row])
        self._kv[:, :, row, :, :length] = prompt

    def release(self, row: int) -> None:
        self._used[row] = 0

    def put(
        self, layer: int, key: torch.Tensor, value: torch.Tensor, positions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write each row's new key and value [rows, kv heads, d] at its position [rows]; returns the layer's blocks."""
        keys, values = self._kv[0, layer], self._kv[1, layer]
        keys[self._numbers, :, positions] = key
        values[self._numbers, :, positions] = value
        return keys, values

    def _reserve(self, length: int) -> None:
        if length <= self._kv.shape[4]:
            return
        grown = self._block(-(-length // GRAIN) * GRAIN)
        for row, used in enumerate(self._used):
            kept = min(used, self._kv.shape[4])
            grown[:, :, row, :, :kept] = self._kv[:, :, row, :, :kept]
        self._kv = grown

    def _block(self, capacity: int) -> torch.Tensor:
        block = torch.empty(*self._shape, capacity, self._d, dtype=self._dtype)
        block[:, :, :, :, :PADDED] = 0
        return block
