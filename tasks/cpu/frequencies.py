"""Count the tokens of a shard of pairs on the cpu queue, and merge the counts of shards.

The token ids of an answer are in the store under a content key, as {"ids": [...]}.  Counts are stored under the hash of
what was counted, so no shard is counted twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from celery import shared_task

from tasks import context
from tasks.job import JobTask, run_job
from tasks.message import ContentKey, Count, RunId
from tasks.store.store import Store

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tasks.collect.frequencies import ShardCounts

KeyPair = tuple[int, str, str]
"""m of the example, then the keys of the token ids of the verbose and of the compressed answer."""

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


def count_pairs(store: Store, run: str, pairs: Sequence[KeyPair]) -> dict[str, Any]:
    """The counts of a shard.  Raises: LookupError when token ids of a pair are not in the store."""
    # Imported here and below: only counting needs numpy.
    from tasks.collect.frequencies import count_shard

    return count_shard(_fetched(store, run, pairs)).to_dict()


def merge_counts(store: Store, run: str, keys: Sequence[str]) -> dict[str, Any]:
    """The counts of all shards, each named once or more often.  Raises: LookupError when a shard has no counts."""
    from tasks.collect.frequencies import sum_counts

    # One at a time, so that memory does not grow with the number of shards.
    return sum_counts(read_counts(store, run, shard) for shard in keys).to_dict()


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


@shared_task(name="cpu.frequencies", base=JobTask)
def frequencies_task(run: RunId, key: ContentKey, attempt: Count) -> None:
    """Count one shard of pairs."""
    run_job((run, key, attempt), lambda job: count_pairs(job.store, run, job.arguments["pairs"]))


@shared_task(name="cpu.merge_frequencies", base=JobTask)
def merge_frequencies_task(run: RunId, key: ContentKey, attempt: Count) -> None:
    """Merge shards that were counted."""
    run_job((run, key, attempt), lambda job: merge_counts(job.store, run, job.arguments["keys"]))
