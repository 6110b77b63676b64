"""What settings refer to: words in place of files, rows of the questions, and the output of `orchestrator collect`."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import Field
from typing_extensions import TypedDict

from tasks.common.files import read_limited
from tasks.common.text import quote
from tasks.common.validation import COLLECTED_BYTES, parse_json
from tasks.records import Sides

T = TypeVar("T")
ZERO = Path("zero")
"""In place of a file of deltas: 0 for each cluster, however many there are."""
SHIPPED = Path("shipped")
"""In place of a file of system prompts: configs/prompts.yaml of this project, wherever the command runs."""
FORK, FORK_FILE = Path("fork"), "fork.json"
"""In place of a file of deltas: the population in this file of the output folder, where `evolve --fork` puts it."""


class _TokenSelection(TypedDict):
    v_steer_token_ids: list[Annotated[int, Field(ge=0)]]


class _Pair(TypedDict):
    verbose_answer: str
    compressed_answer: str


class _Example(TypedDict):
    retained_pairs: list[_Pair]


class _Splits(TypedDict):
    train: list[_Example]


class _WithTokens(TypedDict):
    token_selection: _TokenSelection


class _WithPairs(TypedDict):
    splits: _Splits


def read_discovered_tokens(path: Path) -> tuple[int, ...]:
    """`token_selection.v_steer_token_ids` of the JSON file at `path`: token ids, the most wasted first."""
    ids = _read_collected(path, _WithTokens, "tokens")["token_selection"]["v_steer_token_ids"]
    if not ids or len(set(ids)) < len(ids):
        raise ValueError(f"{quote(str(path))} has no discovered tokens, or one of them twice")
    return tuple(ids)


def read_sides(path: Path) -> Sides:
    """The verbose and the compressed answers of the retained pairs in the JSON file at `path`."""
    collected = _read_collected(path, _WithPairs, "pairs")
    pairs = [pair for example in collected["splits"]["train"] for pair in example["retained_pairs"]]
    if not pairs:
        raise ValueError(f"{quote(str(path))} has no retained pairs: no compressed answer was right")
    return Sides(tuple(p["verbose_answer"] for p in pairs), tuple(p["compressed_answer"] for p in pairs))


def _read_collected(path: Path, kind: type[T], what: str) -> T:
    try:
        return parse_json(kind, read_limited(path, COLLECTED_BYTES))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ValueError(f"{quote(str(path))} has no {what} of `orchestrator collect`: {reason}") from None


ALL = (range(sys.maxsize),)

_FORM = re.compile(r"([^\[\]]*)(?:\[([^\[\]]+)\])?\s*")
_SLICE = re.compile(r"\s*([0-9]{0,9})\s*:\s*([0-9]{0,9})\s*", re.ASCII)
_ITEM = re.compile(r"([0-9]{1,9})(?:\s*-\s*([0-9]{1,9}))?", re.ASCII)


@dataclass(frozen=True)
class Selection:
    """Some rows of the split, or of all rows where it is ""."""

    split: str
    ranges: tuple[range, ...]

    def of(self, count: int) -> tuple[int, ...]:
        """The chosen ones of `count` rows, in their order."""
        closed = [one if one.stop < sys.maxsize else range(one.start, max(one.start + 1, count)) for one in self.ranges]
        last = max((one[-1] for one in closed), default=-1)
        if last >= count:
            raise ValueError(f"names row {last}, but there are {count}, counted from 0")
        return tuple(index for one in closed for index in one)


def parse_selection(text: str) -> Selection:
    """What "train", "train[0:32]", "train[0-7,9]", "0-7,9" and "all" select; an empty text selects nothing."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError(f"{quote(text)} is not of the form SPLIT[ROWS]")
    split, rows = match[1].strip(), match[2]
    if rows is None and (not split or split == "all"):
        return Selection("", ALL if split else ())
    if rows is None:
        return Selection("", _ranges(split)) if split[0] in "-0123456789" else Selection(split, ALL)
    if (part := _SLICE.fullmatch(rows)) is None:
        return Selection(split, _ranges(rows))
    chosen = range(int(part[1] or 0), int(part[2] or sys.maxsize))
    if not chosen:
        raise ValueError(f"{quote(rows)} has no rows")
    return Selection(split, (chosen,))


def _ranges(text: str) -> tuple[range, ...]:
    """As in "0-7,9,12"."""
    ranges = tuple(_parse_item(item.strip()) for item in text.split(","))
    for number, one in enumerate(ranges):
        if common := overlap(ranges[:number], [one]):
            raise ValueError(f"names {common[0]} twice")
    return ranges


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
        raise ValueError(f'{item!r} is neither an index nor a range; write something like "0-7,9,12"')
    first, last = int(match[1]), int(match[2] or match[1])
    if last < first:
        raise ValueError(f"the end of the range {item!r} is before its start")
    return range(first, last + 1)
