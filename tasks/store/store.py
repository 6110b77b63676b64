"""What all processes of the farm share about runs, in one Redis or Valkey; its keys are in tasks/store/keys.py."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, cast

import redis

from tasks.store import keys
from tasks.store.address import store_url
from tasks.store.client import connect
from tasks.store.clusterings import Clusterings
from tasks.store.keys import run_key
from tasks.store.plans import PlanRecords
from tasks.store.results import KEPT_S, SharedResults
from tasks.store.retention import Retention
from tasks.store.run_outputs import RunOutputs
from tasks.store.runs import RunRecords
from tasks.store.waiting import NO_WAITING, Waiting, waiting_of

DELETED_AT_ONCE = 500  # keys in one command


class Store(RunRecords, PlanRecords, RunOutputs):
    """Typed access to all that runs share: their records, what they leave, and the results that they hold together."""

    def __init__(self, client: redis.Redis, number: int | None = None) -> None:
        super().__init__(client, number)
        self.clusterings = Clusterings(client, self.fence)

    def of_owner(self, number: int) -> Store:
        """The same store, for the owner of a run that has this number (tasks/store/run_lease.py)."""
        return Store(self.redis, number)

    def delete_run(self, run_id: str) -> int:
        """Delete a run, and the shared results that no other run has used.  Returns the number of keys removed."""
        self.release_shared(run_id)
        self.release_clusterings(run_id)
        others = [run_key(other, keys.SHARED) for other in self._other_runs(run_id)]
        shared = cast("set[bytes]", self.redis.sdiff([run_key(run_id, keys.SHARED), *others]))
        last = [run_key(run_id, keys.FENCE).encode(), run_key(run_id, keys.LEASE).encode()]
        own = cast("Iterator[bytes]", self.redis.scan_iter(match=run_key(run_id, "*"), count=1000))
        found = [*shared, *(key for key in own if key not in last)]
        for start in range(0, len(found), DELETED_AT_ONCE):
            self._write(run_id, ("UNLINK", *found[start : start + DELETED_AT_ONCE]))
        self._write(run_id, ("SREM", keys.RUNS, run_id), ("UNLINK", *last))
        return len(found)

    # Results that runs share: answers and verdicts (tasks/store/results.py).

    @cached_property
    def _results(self) -> SharedResults:
        return SharedResults(self.redis, self.fence)

    def shared(self, run_id: str, content_keys: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Those of the results that are in the store, by content key; they are held for the run from here on."""
        return self._results.take(run_id, content_keys)

    def put_shared(
        self, run_id: str, key: str, value: Mapping[str, Any], usage: Mapping[str, float] | None = None
    ) -> None:
        """Keep a result under its content key and hold it for the run; `usage` is counted in the same trip."""
        self._results.put(run_id, key, value, usage or {})

    def put_checkpoint(self, run_id: str, key: str, data: bytes) -> None:
        """Keep how far a job is under its content key; the latest stands."""
        self._results.put_bytes(run_id, key, data)

    def checkpoint(self, run_id: str, key: str) -> bytes | None:
        """The latest checkpoint under this key; it is held for the run from here on."""
        return self._results.take_bytes(run_id, key)

    def release_shared(self, run_id: str, kept_s: int = KEPT_S) -> None:
        """The run needs none of its results any more: those that no other run holds expire after `kept_s` seconds.

        Where the server is nearly full, those that expire first are removed at once.
        """
        self._results.release(run_id, self._other_runs(run_id), kept_s)
        self.retention.make_room()

    @cached_property
    def retention(self) -> Retention:
        return Retention(self.redis)

    def _other_runs(self, run_id: str) -> list[str]:
        return [other for other in self.run_ids() if other != run_id]

    def release_clusterings(self, run_id: str, kept_s: int = KEPT_S) -> None:
        """The run has ended: clusterings that no other run holds expire after `kept_s` seconds."""
        self.clusterings.release(run_id, self._other_runs(run_id), kept_s)


def open_store(redis_url: str, waiting: Waiting | None = None) -> Store:
    """The store of the farm at this address.

    While the server's memory is full, what waits for it removes results that no run holds, from this store: `waiting`
    may be that of several clients.
    """
    client = connect(store_url(redis_url), waiting)
    waiting_of(client).make_room = Retention(connect(store_url(redis_url), NO_WAITING)).make_room
    return Store(client)
