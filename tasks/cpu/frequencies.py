"""Count the tokens of a shard of pairs on the cpu queue, and merge the counts of shards.

The token ids of an answer are in the store under a content key, as {"ids": [...]}.  Counts are stored under the hash of
what was counted, so no shard is counted twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

from celery import shared_task
from pydantic import Field, Strict

from tasks import context
from tasks.message import LONGEST_LIST, ContentKey, ContentKeys, Count, RunId
from tasks.store.lock import hold_lock
from tasks.store.store import Store

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tasks.collect.frequencies import ShardCounts

KeyPair = Annotated[tuple[Count, ContentKey, ContentKey], Strict(False)]  # JSON has no tuples
"""m of the example, then the keys of the token ids of the verbose and of the compressed answer."""
KeyPairs = Annotated[list[KeyPair], Field(max_length=LONGEST_LIST)]

VERSION = 1  # of the form of the counts
_AT_ONCE = 128  # pairs that are fetched together, to bound the memory of a task


def counts_key(pairs: Sequence[KeyPair]) -> str:
    """The content key of a shard's counts: equal for the same pairs in any order."""
    return "counts:" + context.content_hash(VERSION, sorted([m, v, c] for m, v, c in pairs))


def merged_key(keys: Sequence[str]) -> str:
    """The content key of the merged counts: equal for the same shards in any order."""
    return "counts:" + context.content_hash(VERSION, "merged", sorted(keys))


def read_counts(store: Store, run: str, key: str) -> ShardCounts:
    """Counts in the store.  Raises: LookupError when they are not there."""
    from tasks.collect.frequencies import ShardCounts

    counts = store.shared(run, [key])
    if key not in counts:
        raise LookupError(f"no counts {key!r} in the store")
    return ShardCounts.from_dict(counts[key])


def count_pairs(store: Store, run: str, pairs: Sequence[KeyPair]) -> str:
    """Count a shard unless it has been counted; the key of the counts.

    Raises: LookupError when token ids of a pair are not in the store.
    """
    # Imported here and below: only counting needs numpy.
    from tasks.collect.frequencies import count_shard

    key = counts_key(pairs)
    with hold_lock(store.redis, key):
        if not store.shared(run, [key]):
            store.put_shared(run, key, count_shard(_fetched(store, run, pairs)).to_dict())
    return key


def merge_counts(store: Store, run: str, keys: Sequence[str]) -> str:
    """Merge shards unless it has been done; the key of the merged counts.  A key may occur more than once.

    Raises: LookupError when a shard's counts are not in the store.
    """
    from tasks.collect.frequencies import merge

    key = merged_key(keys)
    with hold_lock(store.redis, key):
        if not store.shared(run, [key]):
            # One at a time, so that memory does not grow with the number of shards.
            store.put_shared(run, key, merge(read_counts(store, run, shard) for shard in keys).to_dict())
    return key


def _fetched(
    store: Store, run: str, pairs: Sequence[KeyPair]
) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.int64]]]:
    import numpy as np

    for start in range(0, len(pairs), _AT_ONCE):
        some = pairs[start : start + _AT_ONCE]
        requested = sorted({key for _, verbose, compressed in some for key in (verbose, compressed)})
        stored = store.shared(run, requested)
        missing = [key for key in requested if key not in stored]
        if missing:
            raise LookupError(f"no token ids {missing[0]!r} in the store, nor {len(missing) - 1} others of this shard")
        ids = {key: np.array(stored[key]["ids"], dtype=np.int64) for key in requested}
        for m, verbose, compressed in some:
            yield m, ids[verbose], ids[compressed]


@shared_task(name="cpu.frequencies")
def frequencies_task(run: RunId, pairs: KeyPairs) -> str:
    """Count one shard, pairs as [m, key, key]; the key of its counts."""
    return count_pairs(context.store_of(run), run, [(m, verbose, compressed) for m, verbose, compressed in pairs])


@shared_task(name="cpu.merge_frequencies")
def merge_frequencies_task(run: RunId, keys: ContentKeys) -> str:
    """Merge shards that were counted; the key of the merged counts."""
    return merge_counts(context.store_of(run), run, keys)
