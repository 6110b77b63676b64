"""The grid of ways in which candidates are sampled, and the seeds of the samples."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

_SEEDS = 2**31 - 2**16  # so that the seeds of 65,536 samples of a cell fit in 31 bits


@dataclass(frozen=True)
class DecodeCell:
    """One way of sampling.  Sample j uses the cell's seed + j; without `seed` the cell has one for each ticket."""

    temperature: float
    top_p: float
    max_new_tokens: int
    seed: int | None = None
    stop: tuple[str, ...] = ()

    @property
    def is_greedy(self) -> bool:
        return self.temperature == 0


def samples_of(cell: DecodeCell, samples_per_decode: int) -> int:
    """How many candidates a cell gives: greedy ones are all alike, and so there is one."""
    return 1 if cell.is_greedy else samples_per_decode


def rollout_seed(cell: DecodeCell, run_seed: int, epoch: int, group_id: str, cell_index: int) -> int:
    """The seed of sample 0 of a ticket in an epoch: that of the cell, or one of its own."""
    if cell.seed is not None:
        return cell.seed
    return _hashed("rollout", run_seed, epoch, group_id, cell_index)


def preview_seed(cell: DecodeCell, run_seed: int, group_id: str, cell_index: int) -> int:
    """The seed of sample 0 of a ticket in every preview and test: equal in all epochs and under all guidance."""
    return _hashed("preview", run_seed, cell.seed, group_id, cell_index)


def _hashed(*parts: object) -> int:
    text = json.dumps(parts, ensure_ascii=True)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") % _SEEDS
