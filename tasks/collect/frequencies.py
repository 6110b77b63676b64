"""How often each token occurs in verbose and in compressed answers, exactly.

A retained pair of an example with m retained pairs weighs 1/m.  What is counted are whole numbers, apart for each m;
the weights come in at the end, in whole numbers too.  So shards may be counted anywhere and merged in any order: the
sums are exact, and each frequency is rounded once.  Memory grows with the vocabulary (times the few values of m).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    Ids = Sequence[int] | NDArray[np.integer[Any]]
    Pair = tuple[int, Ids, Ids]
    Counts = Mapping[int, NDArray[np.int64]]

MOST_IDS = 1 << 24
"""No vocabulary comes near; a larger id is a fault in the data, and an array that long would not fit a worker."""

_HELD = 1 << 18  # tokens that wait to be counted, for one m of one side


@dataclass(frozen=True, eq=False)
class ShardCounts:
    """Counts [largest id + 1] int64 of each token id, by m; no m without tokens, no zero at an array's end.

    `raw` is of verbose answers, `comp` of compressed ones.  Equal counts have equal bytes.
    """

    raw: Counts
    comp: Counts

    @property
    def tokens(self) -> tuple[int, int]:
        """How many tokens were counted, without weights: verbose, compressed."""
        return _total(self.raw), _total(self.comp)

    def to_dict(self) -> dict[str, Any]:
        """As JSON takes it: {"raw": {m: {"ids": [...], "counts": [...]}}, "comp": ...}, only ids that occur."""
        return {"raw": _sparse(self.raw), "comp": _sparse(self.comp)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ShardCounts:
        """The inverse of `to_dict`.  Raises: KeyError or ValueError for anything else."""
        return cls(_dense(values["raw"]), _dense(values["comp"]))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShardCounts) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]  # it holds arrays; this is Python's own way to say so


@dataclass(frozen=True)
class Frequencies:
    """Of each token id that occurs: freq_raw, freq_comp and their difference, each rounded once from its exact value.

    `order` has the ids by exact difference, largest first, ties by id.
    """

    raw: Mapping[int, float]
    comp: Mapping[int, float]
    delta: Mapping[int, float]
    order: tuple[int, ...]


def count_shard(pairs: Iterable[Pair]) -> ShardCounts:
    """Count pairs (m, verbose_ids, compressed_ids) in one pass; ids as lists or integer arrays.

    Raises: ValueError for an m below 1 or an id outside 0 ... MOST_IDS - 1; TypeError for ids that are no integers.
    """
    raw, comp = _Counter(), _Counter()
    for m, verbose, compressed in pairs:
        if m < 1:
            raise ValueError(f"a retained pair of an example with {m} retained pairs")
        raw.add(m, verbose)
        comp.add(m, compressed)
    return ShardCounts(raw.counts(), comp.counts())


def sum_counts(shards: Iterable[ShardCounts]) -> ShardCounts:
    """The counts of all shards together: the same bits in whatever order they come."""
    raw: dict[int, NDArray[np.int64]] = {}
    comp: dict[int, NDArray[np.int64]] = {}
    for shard in shards:
        for sums, counts in ((raw, shard.raw), (comp, shard.comp)):
            for m, found in counts.items():
                sums[m] = _sum(sums.get(m), found)
    return ShardCounts(_sorted(raw), _sorted(comp))


def frequencies(counts: ShardCounts) -> Frequencies:
    """Weighted frequencies of every token that occurs; without any token on a side, that side's are 0."""
    scale = math.lcm(*counts.raw, *counts.comp)
    raw, comp = _weighted(counts.raw, scale), _weighted(counts.comp, scale)
    # The scale falls out of each quotient; only a side without tokens needs a total that can be divided by.
    total_raw, total_comp = sum(raw.values()) or 1, sum(comp.values()) or 1
    ids = sorted(raw.keys() | comp.keys())
    numerators = {i: raw.get(i, 0) * total_comp - comp.get(i, 0) * total_raw for i in ids}
    # Python rounds the quotient of two whole numbers correctly, whatever their size.
    return Frequencies(
        raw={i: raw.get(i, 0) / total_raw for i in ids},
        comp={i: comp.get(i, 0) / total_comp for i in ids},
        delta={i: numerators[i] / (total_raw * total_comp) for i in ids},
        order=tuple(sorted(ids, key=lambda i: (-numerators[i], i))),
    )


class _Counter:
    """One side's counts in the making: ids are gathered, then counted many at a time."""

    def __init__(self) -> None:
        self._sums: dict[int, NDArray[np.int64]] = {}
        self._held: dict[int, list[NDArray[np.integer[Any]]]] = {}
        self._size: dict[int, int] = {}

    def add(self, m: int, ids: Ids) -> None:
        array = np.asarray(ids)
        if not array.size:
            return
        if array.dtype.kind not in "iu":
            raise TypeError(f"token ids are whole numbers, not {array.dtype}")
        self._held.setdefault(m, []).append(array)
        self._size[m] = self._size.get(m, 0) + array.size
        if self._size[m] >= _HELD:
            self._count(m)

    def counts(self) -> dict[int, NDArray[np.int64]]:
        for m in list(self._held):
            self._count(m)
        return _sorted(self._sums)

    def _count(self, m: int) -> None:
        ids = np.concatenate(self._held.pop(m))
        del self._size[m]
        low, high = int(ids.min()), int(ids.max())
        if low < 0 or high >= MOST_IDS:
            raise ValueError(f"{low if low < 0 else high} is no token id")
        self._sums[m] = _sum(self._sums.get(m), np.bincount(ids.astype(np.int64, copy=False)))


def _sum(one: NDArray[np.int64] | None, other: NDArray[np.int64]) -> NDArray[np.int64]:
    if one is None:
        return other.astype(np.int64)
    longer, shorter = (one, other) if len(one) >= len(other) else (other, one)
    both = longer.copy()
    both[: len(shorter)] += shorter
    return both


def _weighted(counts: Counts, scale: int) -> dict[int, int]:
    """`scale` times the weighted count of each id that occurs: a whole number, for `scale` is a multiple of every m."""
    sums: dict[int, int] = {}
    for m, found in counts.items():
        weight = scale // m
        ids = np.flatnonzero(found)
        for i, count in zip(ids.tolist(), found[ids].tolist(), strict=True):
            sums[i] = sums.get(i, 0) + count * weight
    return sums


def _sorted(counts: Counts) -> dict[int, NDArray[np.int64]]:
    return {m: counts[m] for m in sorted(counts)}


def _total(counts: Counts) -> int:
    return sum(int(found.sum()) for found in counts.values())


def _sparse(counts: Counts) -> dict[str, dict[str, list[int]]]:
    return {
        str(m): {"ids": (ids := np.flatnonzero(found)).tolist(), "counts": found[ids].tolist()}
        for m, found in counts.items()
    }


def _dense(values: Mapping[str, Mapping[str, list[int]]]) -> dict[int, NDArray[np.int64]]:
    counts = {}
    for m, found in values.items():
        counts[int(m)] = np.zeros(max(found["ids"]) + 1, dtype=np.int64)
        counts[int(m)][found["ids"]] = found["counts"]
    return _sorted(counts)
