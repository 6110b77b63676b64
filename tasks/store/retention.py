"""What the store may forget, and when: results that no run holds, and runs that have finished.

A result that a run has read or written is held for it until the run releases it.  One that no run holds expires some
days after its last use; a run that needs it again computes it again.  A run that has finished is in its output folder.

The server must not evict keys itself (`maxmemory-policy noeviction`): locks, limits and Celery's counters expire too.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar, cast

import redis

from tasks.store import keys
from tasks.store.client import StoreAccess
from tasks.store.keys import run_key

DAY_S = 24 * 3600
KEPT_S = 30 * DAY_S
FULL, ROOM = 0.75, 0.6  # of the server's memory limit: from when on room is made, and until when
AT_ONCE = 500  # keys in one script
RESULT = re.compile(rb"whetstone:([a-z_]+):[0-9a-f]{16,128}")

# KEYS: results, of which those that no run holds have an end.  ARGV: seconds of life that they have left at most.
# Returns how many were removed.
_REMOVE = """
local removed = 0
for _, key in ipairs(KEYS) do
    local left = redis.call("TTL", key)
    if left >= 0 and left <= tonumber(ARGV[1]) then removed = removed + redis.call("DEL", key) end
end
return removed
"""
# KEYS: results.  ARGV: seconds.  Those without an end that are in no run's set of held ones expire.
_EXPIRE_UNHELD = f"""
local runs = redis.call("SMEMBERS", "{keys.RUNS}")
local function held(key)
    for _, run in ipairs(runs) do
        for _, part in ipairs({{"{keys.HELD}", "{keys.HELD_CLUSTERINGS}"}}) do
            if redis.call("SISMEMBER", "{keys.PREFIX}run:" .. run .. ":" .. part, key) == 1 then return true end
        end
    end
    return false
end
for _, key in ipairs(KEYS) do
    if redis.call("TTL", key) == -1 and not held(key) then redis.call("EXPIRE", key, ARGV[1]) end
end
"""


@dataclass(frozen=True)
class StoredRun:
    run: str
    state: str  # "" when none was published
    updated: float  # when that was, in seconds of the epoch
    keys: int  # its own
    size: int  # bytes


@dataclass(frozen=True)
class StoredResult:
    """A result or a clustering that no run holds."""

    key: str
    kind: str
    expires_s: int
    size: int  # bytes


class Retention(StoreAccess):
    """What one Redis or Valkey may forget."""

    def runs(self) -> list[StoredRun]:
        """All runs of the store, those first whose state was published longest ago."""
        found = []
        for name in self.run_ids():
            own = list(self.keys_of(name))
            found.append(StoredRun(name, *self._published(name), len(own), sum(self._sizes(own))))
        return sorted(found, key=lambda run: run.updated)

    def finished_before(self, before: float) -> list[str]:
        """The runs that were published as finished before this time, in seconds of the epoch, and are not driven."""
        return [run_id for run_id in self.run_ids() if self._is_over(run_id, before)]

    def remove_finished(self, run_id: str, before: float) -> bool:
        """Returns whether it was published as finished before this time, and no process drives it."""
        with self.redis.pipeline() as pipe:
            pipe.watch(run_key(run_id, keys.METADATA), run_key(run_id, keys.LEASE))  # type: ignore[no-untyped-call]
            if not self._is_over(run_id, before):
                return False
            own = list(self.keys_of(run_id))  # those of a run that has finished are few
            pipe.multi()
            pipe.unlink(*own)
            pipe.srem(keys.RUNS, run_id)
            with suppress(redis.WatchError):
                return bool(pipe.execute())
        return False

    def unheld(self) -> list[StoredResult]:
        """The results and clusterings that no run holds, those first that expire first."""
        found = []
        for several in _several(self._result_keys()):
            pipe = self.redis.pipeline(transaction=False)
            for key in several:
                pipe.ttl(key)
            for key, left, size in zip(several, pipe.execute(), self._sizes(several), strict=True):
                if left >= 0:
                    found.append(StoredResult(key.decode(), _kind(key), left, size))
        return sorted(found, key=lambda result: result.expires_s)

    def remove_results(self, results: Iterable[StoredResult]) -> int:
        """Remove those of the results that no run holds at this moment.  Returns how many."""
        removed = 0
        for several in _several(results):
            names, most = [result.key for result in several], max(result.expires_s for result in several)
            removed += cast(int, self.redis.eval(_REMOVE, len(names), *names, most))
        return removed

    def expire_unheld(self, kept_s: int) -> None:
        """Give a time to live to results that have none and that no run holds: written after their run ended."""
        for several in _several(self._result_keys()):
            self.redis.eval(_EXPIRE_UNHELD, len(several), *several, kept_s)

    def memory(self) -> tuple[int, int]:
        """Bytes that the server uses, and its limit (0: none)."""
        info = self.redis.info("memory")
        return int(info["used_memory"]), int(info.get("maxmemory", 0))

    def make_room(self) -> None:
        """Where more than `FULL` of the server's limit is used, remove results that no run holds until `ROOM` is."""
        used, limit = self.memory()
        if limit and used >= FULL * limit:
            self.shrink(int(ROOM * limit))

    def shrink(self, most: int) -> int:
        """Remove results that no run holds, the next to expire first, until the server uses at most `most` bytes."""
        removed = 0
        for several in _several(self.unheld()):
            if self.memory()[0] <= most:
                break
            removed += self.remove_results(several)
        return removed

    def apply_rule(self, run_id: str, days: float) -> None:
        """What every run does when it begins: remove runs that finished more than `days` days ago, and make room."""
        before = time.time() - days * DAY_S
        for run in self.finished_before(before):
            if run != run_id:
                self.remove_finished(run, before)
        self.expire_unheld(int(days * DAY_S))
        self.make_room()

    def _is_over(self, run_id: str, before: float) -> bool:
        state, updated = self._published(run_id)
        return state == "finished" and updated <= before and not self.redis.exists(run_key(run_id, keys.LEASE))

    def _published(self, run_id: str) -> tuple[str, float]:
        status = json.loads(self.metadata(run_id, keys.STATUS) or "{}")
        return status.get("state", ""), status.get("updated", 0.0)

    def _result_keys(self) -> Iterator[bytes]:
        found = cast("Iterator[bytes]", self.redis.scan_iter(match=f"{keys.PREFIX}*", count=1000))
        return (key for key in found if RESULT.fullmatch(key) and _kind(key) != keys.TEST_USES)

    def _sizes(self, found: Sequence[bytes]) -> list[int]:
        pipe = self.redis.pipeline(transaction=False)
        for key in found:
            pipe.memory_usage(key)
        return [int(size or 0) for size in pipe.execute()]


T = TypeVar("T")


def _several(items: Iterable[T]) -> Iterator[list[T]]:
    """The items in lists of `AT_ONCE`, the last one shorter."""
    rest = iter(items)
    while found := list(islice(rest, AT_ONCE)):
        yield found


def _kind(key: bytes) -> str:
    return key.split(b":")[1].decode()
