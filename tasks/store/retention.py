"""What the store may forget, and when: finished runs, and results and clusterings that no run holds.

A result that no run holds has a time to live (tasks/store/results.py), and a run that has finished is in its output
folder.  Nothing else is removed: a run that is at work, parked or stopped keeps all that it needs.  Each removal is
decided and done by one script, so nothing can begin to be used in between.

The server must not evict keys itself (`maxmemory-policy noeviction`).  Locks, leases, limits and Celery's counters
expire too, and an eviction would take them like any result.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar, cast

import redis

from tasks.store import keys
from tasks.store.keys import run_key

DAY_S = 24 * 3600
FULL, ROOM = 0.75, 0.6  # of the server's memory limit: from when on room is made, and until when
AT_ONCE = 500  # keys in one script
RUN_KEYS_AT_ONCE = 5000  # Lua's own limit on arguments is some 8,000
RESULT = re.compile(rb"whetstone:([a-z_]+):[0-9a-f]{16,128}")

# Whether the key is held by any run that the store knows.
_HELD = """
local runs = redis.call("SMEMBERS", "whetstone:runs")
local function held(key)
    for _, run in ipairs(runs) do
        for _, part in ipairs({"held", "held_clusterings"}) do
            if redis.call("SISMEMBER", "whetstone:run:" .. run .. ":" .. part, key) == 1 then return true end
        end
    end
    return false
end
"""
# KEYS: results.  ARGV: seconds of life that they have left at most.  Returns how many were removed.
_REMOVE_RESULTS = f"""
{_HELD}
local removed = 0
for _, key in ipairs(KEYS) do
    local left = redis.call("TTL", key)
    if left >= 0 and left <= tonumber(ARGV[1]) and not held(key) then removed = removed + redis.call("DEL", key) end
end
return removed
"""
# KEYS: results without an end.  ARGV: seconds.  Returns how many of them no run holds; these expire now.
_EXPIRE_UNHELD = f"""
{_HELD}
local expiring = 0
for _, key in ipairs(KEYS) do
    if redis.call("TTL", key) == -1 and not held(key) then expiring = expiring + redis.call("EXPIRE", key, ARGV[1]) end
end
return expiring
"""
# KEYS: the run's metadata and lease, the set of runs, then the run's keys.  ARGV: its id, and when it was published
# as finished at the latest, in seconds of the epoch.  Returns whether the run was removed.
_REMOVE_RUN = """
local text = redis.call("HGET", KEYS[1], "status")
if not text or redis.call("EXISTS", KEYS[2]) == 1 then return 0 end
local status = cjson.decode(text)
if status["state"] ~= "finished" or status["updated"] > tonumber(ARGV[2]) then return 0 end
for i = 4, #KEYS do redis.call("UNLINK", KEYS[i]) end
redis.call("SREM", KEYS[3], ARGV[1])
return 1
"""


@dataclass(frozen=True)
class StoredRun:
    """A run in the store: its state ("" when none was published), when that was, and its own keys.

    `updated` is in seconds of the epoch, `size` in bytes.
    """

    run: str
    state: str
    updated: float
    keys: int
    size: int


@dataclass(frozen=True)
class StoredResult:
    """A result or a clustering that no run holds: its key, its kind, seconds until it expires, and bytes."""

    key: str
    kind: str
    expires_s: int
    size: int


class Retention:
    """The rule for one Redis or Valkey."""

    def __init__(self, client: redis.Redis) -> None:
        self._redis = client
        self._remove_results = client.register_script(_REMOVE_RESULTS)
        self._expire_unheld = client.register_script(_EXPIRE_UNHELD)
        self._remove_run = client.register_script(_REMOVE_RUN)

    # Runs.

    def runs(self) -> list[StoredRun]:
        """All runs of the store, those first whose state was published longest ago."""
        names = sorted(name.decode() for name in cast("set[bytes]", self._redis.smembers(keys.RUNS)))
        found = []
        for name in names:
            state, updated = self._published(name)
            own = list(self._keys_of(name))
            found.append(StoredRun(name, state, updated, len(own), sum(self._sizes(own))))
        return sorted(found, key=lambda run: run.updated)

    def is_leased(self, run_id: str) -> bool:
        """Whether a process drives the run now."""
        return bool(self._redis.exists(run_key(run_id, keys.LEASE)))

    def finished_before(self, before: float) -> list[str]:
        """The runs that were published as finished before this time, in seconds of the epoch, and are not driven."""
        names = sorted(name.decode() for name in cast("set[bytes]", self._redis.smembers(keys.RUNS)))
        ended = []
        for name in names:
            state, updated = self._published(name)
            if state == "finished" and updated <= before and not self.is_leased(name):
                ended.append(name)
        return ended

    def remove_finished(self, run_id: str, before: float) -> bool:
        """Remove a run's own keys if it was published as finished before this time and no process drives it."""
        own = list(self._keys_of(run_id))
        if len(own) > RUN_KEYS_AT_ONCE:  # those of a run that has finished are few
            return False
        first = [run_key(run_id, keys.METADATA), run_key(run_id, keys.LEASE), keys.RUNS]
        return bool(self._remove_run([*first, *own], [run_id, repr(before)]))

    def _published(self, run_id: str) -> tuple[str, float]:
        text = cast("bytes | None", self._redis.hget(run_key(run_id, keys.METADATA), keys.STATUS))
        if not text:
            return "", 0.0
        status = json.loads(text)
        return status["state"], status["updated"]

    def _keys_of(self, run_id: str) -> Iterator[bytes]:
        return cast("Iterator[bytes]", self._redis.scan_iter(match=run_key(run_id, "*"), count=1000))

    # Results and clusterings.

    def unheld(self) -> list[StoredResult]:
        """The results and clusterings that no run holds, those first that expire first."""
        found = []
        for several in _several(self._result_keys()):
            pipe = self._redis.pipeline(transaction=False)
            for key in several:
                pipe.ttl(key)
                pipe.memory_usage(key)
            figures = pipe.execute()
            for key, left, size in zip(several, figures[::2], figures[1::2], strict=True):
                if left >= 0:
                    found.append(StoredResult(key.decode(), _kind(key), left, int(size or 0)))
        return sorted(found, key=lambda result: result.expires_s)

    def remove_results(self, results: Iterable[StoredResult]) -> int:
        """Remove those of the results that no run holds at this moment.  Returns how many."""
        removed = 0
        for several in _several(results):
            most = max(result.expires_s for result in several)
            removed += cast(int, self._remove_results([result.key for result in several], [most]))
        return removed

    def expire_unheld(self, kept_s: int) -> int:
        """Give a time to live to results that have none and that no run holds: a task wrote them after its run ended.

        Returns how many there were.
        """
        return sum(cast(int, self._expire_unheld(list(several), [kept_s])) for several in _several(self._result_keys()))

    def _result_keys(self) -> Iterator[bytes]:
        found = cast("Iterator[bytes]", self._redis.scan_iter(match=f"{keys.PREFIX}*", count=1000))
        return (key for key in found if RESULT.fullmatch(key) and _kind(key) != keys.TEST_USES)

    # Memory.

    def memory(self) -> tuple[int, int]:
        """Bytes that the server uses, and its limit (0: none)."""
        info = self._redis.info("memory")
        return int(info["used_memory"]), int(info.get("maxmemory", 0))

    def make_room(self) -> int:
        """Where the server is nearly full, remove results that no run holds, the next to expire first.

        Returns how many.  From `FULL` of the server's limit on, until `ROOM` of it is used.
        """
        used, limit = self.memory()
        if not limit or used < FULL * limit:
            return 0
        return self.shrink(int(ROOM * limit))

    def shrink(self, most: int) -> int:
        """Remove results that no run holds, the next to expire first, until the server uses at most `most` bytes."""
        removed = 0
        for several in _several(self.unheld()):
            if self.memory()[0] <= most:
                break
            removed += self.remove_results(several)
        return removed

    # What every run does when it begins.

    def apply_rule(self, run_id: str, days: float) -> None:
        """Remove runs that finished more than `days` days ago, other than `run_id`, and make room where it is short.

        Results that no run holds and that have no time to live get one of `days` days.
        """
        before = time.time() - days * DAY_S
        for run in self.finished_before(before):
            if run != run_id:
                self.remove_finished(run, before)
        self.expire_unheld(int(days * DAY_S))
        self.make_room()

    def compact(self) -> None:
        """Have the server write its append-only file anew, without what was removed."""
        with contextlib.suppress(redis.ResponseError):  # it has none, or writes it already
            self._redis.bgrewriteaof()

    def _sizes(self, found: Sequence[bytes]) -> list[int]:
        pipe = self._redis.pipeline(transaction=False)
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
