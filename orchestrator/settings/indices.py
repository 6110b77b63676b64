"""Which lines of a data set are meant: "all", or 0-based indices and inclusive ranges, as in "0-7,9,12"."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

ALL = (range(sys.maxsize),)

_ITEM = re.compile(r"([0-9]{1,9})(?:\s*-\s*([0-9]{1,9}))?", re.ASCII)


def parse_indices(text: str) -> tuple[range, ...]:
    """The ranges that `text` names, in its order; none for an empty text and `ALL` for "all".

    Raises: ValueError, saying what is wrong, for another syntax, a range that runs backwards, or an index named twice.
    """
    if text.strip() == "all":
        return ALL
    if not text.strip():
        return ()
    ranges = tuple(_parse_item(item.strip()) for item in text.split(","))
    for number, one in enumerate(ranges):
        if common := overlap(ranges[:number], [one]):
            raise ValueError(f"names {_span(common)} twice")
    return ranges


def select_indices(text: str, count: int) -> tuple[int, ...]:
    """The indices that `text` names in a data set of `count` lines, in its order.

    Raises: ValueError, saying what is wrong, as `parse_indices` does, or when an index lies outside the data set.
    """
    ranges = parse_indices(text)
    if ranges == ALL:
        return tuple(range(count))
    last = max((one[-1] for one in ranges), default=-1)
    if last >= count:
        raise ValueError(f"names {last}, but the data set has {count} lines, counted from 0")
    return tuple(index for one in ranges for index in one)


def overlap(some: Sequence[range], others: Sequence[range]) -> range | None:
    """The first stretch of indices that is in both, if there is one."""
    for one in some:
        for other in others:
            common = range(max(one.start, other.start), min(one.stop, other.stop))
            if common:
                return common
    return None


def _parse_item(item: str) -> range:
    match = _ITEM.fullmatch(item)
    if match is None:
        raise ValueError(f'{item!r} is neither an index nor a range; write "all" or something like "0-7,9,12"')
    first, last = int(match[1]), int(match[2] or match[1])
    if last < first:
        raise ValueError(f"the range {item!r} runs backwards")
    return range(first, last + 1)


def _span(indices: range) -> str:
    return str(indices[0]) if len(indices) == 1 else f"{indices[0]}-{indices[-1]}"
