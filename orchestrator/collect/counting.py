"""From tokenized pairs to the tokens that the model wastes: counted in shards on the farm, merged, chosen."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from celery import Celery

from orchestrator.dispatch.producer import pop_result, send
from orchestrator.dispatch.scheduler import PATIENCE_S, POLL_S, CollectionFailed
from tasks.cpu.frequencies import read_counts
from tasks.store.store import Store

if TYPE_CHECKING:
    from tasks.collect.frequencies import ShardCounts

KeyPair = tuple[int, str, str]  # m, and the keys of the verbose and the compressed token ids
SHARD = 512  # pairs


def count(
    app: Celery, store: Store, run_id: str, pairs: Sequence[KeyPair], check: Callable[[], None], shard: int = SHARD
) -> ShardCounts:
    """The counts of all pairs.  Raises: CollectionFailed; whatever `check` raises."""
    shards = [pairs[start : start + shard] for start in range(0, len(pairs), shard)]
    keys = _ends(app, store, run_id, [("cpu.frequencies", [run_id, list(part)]) for part in shards], check)
    [merged] = _ends(app, store, run_id, [("cpu.merge_frequencies", [run_id, keys])], check)
    return read_counts(store, run_id, merged)


def _ends(
    app: Celery, store: Store, run_id: str, calls: Sequence[tuple[str, list[Any]]], check: Callable[[], None]
) -> list[str]:
    """What each task gave, in order."""
    sent = [send(app, task, arguments) for task, arguments in calls]
    ended: dict[str, str] = {}
    progress = time.monotonic()
    while len(ended) < len(sent):
        for task in sent:
            status, result = pop_result(app, task) if task not in ended else (None, None)
            if status is not None and status != "SUCCESS":
                raise CollectionFailed(f"the tokens could not be counted: {result}")
            if status is not None:
                ended[task], progress = str(result), time.monotonic()
        check()
        if time.monotonic() - progress > PATIENCE_S:
            raise CollectionFailed(f"the farm has counted nothing for {PATIENCE_S:.0f} s")
        if len(ended) < len(sent):
            store.wait(run_id, POLL_S / 5)
    return [ended[task] for task in sent]
