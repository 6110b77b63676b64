"""What settings refer to: a file of deltas, discovered tokens, pairs of answers, and lines of the data set.

Deltas are one finite number for each cluster.  Discovered tokens and pairs of a verbose and a compressed answer are in
the output of `orchestrator collect`.  Lines are "all", or 0-based indices and inclusive ranges, as in "0-7,9,12".
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from tasks.escape import quote
from tasks.files import FileTooLarge, read_limited
from tasks.limits import COLLECTED_BYTES, DELTAS_BYTES, LARGEST_DELTA
from tasks.models import Sides
from tasks.validation import Delta, parse_json

if TYPE_CHECKING:
    from orchestrator.settings.clusters import ClusterLayout

_DELTAS = TypeAdapter(dict[str, Delta])

ZERO = Path("zero")
"""In place of a file of deltas: 0 for each cluster, however many there are."""
SHIPPED = Path("shipped")
"""In place of a file of system prompts: configs/prompts.yaml of this project, wherever the command runs."""
BEST_VECTOR = Path("best")
"""In place of a file of deltas: the best vector that needs no search; the search starts from it."""
BEST_PROMPT = "best"
"""In place of a system prompt: the best one of the file of system prompts.  No model is asked with this word."""


def read_deltas(path: Path, layout: ClusterLayout) -> dict[str, float]:
    """The deltas in the JSON file at `path`, in the order of the clusters' ids; 0 for each when `path` is `ZERO`, or
    `BEST_VECTOR`, which is known once the clusters are.

    Raises: ValueError with a message of one line when the file cannot be read, is not a JSON object, has other keys
    than the clusters, or has a value that is not a number from -LARGEST_DELTA to LARGEST_DELTA.
    """
    if path in (ZERO, BEST_VECTOR):
        return dict.fromkeys(layout.ids, 0.0)
    try:
        pairs = json.loads(read_limited(path, DELTAS_BYTES), object_pairs_hook=_Pairs)
    except FileTooLarge as error:
        raise ValueError(f"{quote(str(path))} cannot be read: {error}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{quote(str(path))} cannot be read as JSON: {error}") from error
    if not isinstance(pairs, _Pairs):
        raise ValueError(f"{quote(str(path))} is not a JSON object of cluster ids and numbers")
    _check_keys(path, [key for key, _ in pairs], layout)
    try:
        values = _DELTAS.validate_python(dict(pairs), strict=True)
    except ValidationError as error:
        detail = error.errors(include_url=False)[0]
        value, cluster = quote(str(detail["input"])), detail["loc"][0]
        bounds = f"a number from {-LARGEST_DELTA:g} to {LARGEST_DELTA:g}"
        raise ValueError(f"{quote(str(path))} has {value} for cluster {cluster}, which is not {bounds}") from None
    return {key: values[key] for key in layout.ids}


class _Pairs(list[tuple[str, Any]]):
    """The members of a JSON object, repeated keys included."""


def _check_keys(path: Path, keys: list[str], layout: ClusterLayout) -> None:
    clusters, times = layout.ids, Counter(keys)
    wrong = [
        ("lacks", [cluster for cluster in clusters if cluster not in times]),
        ("has the unknown", sorted(times.keys() - set(clusters))),
        ("repeats", sorted(key for key, count in times.items() if count > 1)),
    ]
    found = [
        f"{verb} {', '.join(quote(key) for key in some[:5])}{', ...' * (len(some) > 5)}" for verb, some in wrong if some
    ]
    if found:
        clusters_are = f"the clusters are '0' to '{clusters[-1]}', {layout.last}"
        otherwise = f"the value {ZERO} in place of a file is 0 for each"
        raise ValueError(f"{quote(str(path))} {' and '.join(found)} ({clusters_are}); {otherwise}")


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
