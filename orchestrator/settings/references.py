"""What settings refer to: words in place of files, discovered tokens, pairs of answers, and lines of the data set.

Discovered tokens and pairs of a verbose and a compressed answer are in
the output of `orchestrator collect`.  Lines are "all", or 0-based indices and inclusive ranges, as in "0-7,9,12".
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from typing_extensions import TypedDict

from tasks.escape import quote
from tasks.files import read_limited
from tasks.limits import COLLECTED_BYTES
from tasks.models import Sides
from tasks.validation import parse_json

ZERO = Path("zero")
"""In place of a file of deltas: 0 for each cluster, however many there are."""
SHIPPED = Path("shipped")
"""In place of a file of system prompts: configs/prompts.yaml of this project, wherever the command runs."""
BEST_VECTOR = Path("best")
"""In place of a file of deltas: a vector that needs no search; the search starts from it."""
FORK, FORK_FILE = Path("fork"), "fork.json"
"""In place of a file of deltas: the population in this file of the output folder, where `evolve --fork` puts it."""
BEST_PROMPT = "best"
"""In place of a system prompt: the best one of the file of system prompts.  No model is asked with this word."""


def read_discovered_tokens(path: Path) -> tuple[int, ...]:
    """`token_selection.v_steer_token_ids` of the JSON file at `path`: token ids, the most wasted first.

    Raises: ValueError with a message of one line when the file cannot be read, has no such list, or when the list is
    empty or has anything but distinct whole numbers from 0.
    """
    try:
        data = json.loads(read_limited(path, COLLECTED_BYTES))
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{quote(str(path))} cannot be read as JSON: {error}") from error
    selection = data.get("token_selection") if isinstance(data, dict) else None
    ids = selection.get("v_steer_token_ids") if isinstance(selection, dict) else None
    if not isinstance(ids, list):
        raise ValueError(f"{quote(str(path))} has no list token_selection.v_steer_token_ids: is it Phase 0's output?")
    if not ids:
        raise ValueError(f"{quote(str(path))} has no discovered tokens")
    if wrong := [i for i in ids if not isinstance(i, int) or isinstance(i, bool) or i < 0]:
        raise ValueError(
            f"{quote(str(path))} has {quote(repr(wrong[0]))} among its discovered tokens, which is not a token id"
        )
    if len(set(ids)) < len(ids):
        raise ValueError(f"{quote(str(path))} has a discovered token twice")
    return tuple(ids)


class _Pair(TypedDict):
    verbose_answer: str
    compressed_answer: str


class _Example(TypedDict):
    retained_pairs: list[_Pair]


class _Splits(TypedDict):
    train: list[_Example]


class _Collected(TypedDict):
    """What is read of the output of `orchestrator collect`."""

    splits: _Splits


def read_sides(path: Path) -> Sides:
    """The verbose and the compressed answers of the retained pairs in the JSON file at `path`.

    Raises: ValueError with a message of one line when the file cannot be read, is no output of `orchestrator collect`,
    or has no such pair.
    """
    try:
        collected = parse_json(_Collected, read_limited(path, COLLECTED_BYTES))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ValueError(f"{quote(str(path))} has no pairs of `orchestrator collect`: {reason}") from None
    pairs = [pair for example in collected["splits"]["train"] for pair in example["retained_pairs"]]
    if not pairs:
        raise ValueError(f"{quote(str(path))} has no retained pairs: no compressed answer was right")
    return Sides(tuple(p["verbose_answer"] for p in pairs), tuple(p["compressed_answer"] for p in pairs))


ALL = (range(sys.maxsize),)

_ITEM = re.compile(r"([0-9]{1,9})(?:\s*-\s*([0-9]{1,9}))?", re.ASCII)


def parse_indices(text: str) -> tuple[range, ...]:
    """The ranges that `text` names, in its order; none for an empty text and `ALL` for "all".

    Raises: ValueError for another syntax, a range that ends before its start, or an index that is named twice.
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

    Raises: ValueError as `parse_indices`, and when an index is not in the data set.
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
        raise ValueError(f"the end of the range {item!r} is before its start")
    return range(first, last + 1)


def _span(indices: range) -> str:
    return str(indices[0]) if len(indices) == 1 else f"{indices[0]}-{indices[-1]}"
