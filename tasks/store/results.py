"""Results that runs share, each under the hash of all that determines it, and what the store may forget, and when.

A result that a run has read or written is held for it until the run releases it: it cannot expire meanwhile, and it is
not removed to make room.  A result that no run holds expires some days after its last use; a run that needs it again
computes it again.  A run that has finished is in its output folder.  Nothing else is removed: a run that is at work,
parked or stopped keeps all that it needs.

Each script sees the results and the sets of the runs at one moment, so nothing can begin to be used in the instant in
which it is released or removed.  The server must not evict keys itself (`maxmemory-policy noeviction`): locks, limits
and Celery's counters expire too, and an eviction would take them like any result.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar, cast

import redis

from tasks.store import keys
from tasks.store.keys import result_key, run_key
from tasks.store.ownership import StoreAccess

DAY_S = 24 * 3600
KEPT_S = 30 * DAY_S

# KEYS: the run's sets of held and of used results, then results.  Returns the texts of the results.
_TAKE = """
local texts = {}
for i = 3, #KEYS do
    local text = redis.call("GET", KEYS[i])
    if text then
        redis.call("PERSIST", KEYS[i])
        redis.call("SADD", KEYS[1], KEYS[i])
        redis.call("SADD", KEYS[2], KEYS[i])
    end
    texts[i - 2] = text
end
return texts
"""
# KEYS: a set of held keys, a set of used ones, and the key.  Returns whether it is there.
_HOLD = """
if redis.call("EXISTS", KEYS[3]) == 0 then return 0 end
redis.call("PERSIST", KEYS[3])
redis.call("SADD", KEYS[1], KEYS[3])
redis.call("SADD", KEYS[2], KEYS[3])
return 1
"""
# KEYS: the run's sets of held and of used results, the result, and the run's counters.  ARGV: the result's text, then
# names and counts of what it used, which are counted when the run did not hold the result yet.
_PUT = """
local is_new = redis.call("SADD", KEYS[1], KEYS[3])
redis.call("SADD", KEYS[2], KEYS[3])
redis.call("SETNX", KEYS[3], ARGV[1])
redis.call("PERSIST", KEYS[3])
if is_new == 1 then
    for i = 2, #ARGV, 2 do redis.call("HINCRBYFLOAT", KEYS[4], ARGV[i], ARGV[i + 1]) end
end
"""
# KEYS: the sets of held results, the run's own first.  ARGV: seconds.
_RELEASE = """
for _, result in ipairs(redis.call("SDIFF", unpack(KEYS))) do redis.call("EXPIRE", result, ARGV[1]) end
redis.call("UNLINK", KEYS[1])
"""


class SharedResults(StoreAccess):
    """Results by their content keys."""

    def __init__(self, client: redis.Redis, number: int | None = None) -> None:
        super().__init__(client, number)
        self._put, self._release = self._script(_PUT), self._script(_RELEASE)
        self._take, self._hold = client.register_script(_TAKE), client.register_script(_HOLD)

    def shared(self, run_id: str, content_keys: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Those of the results that are in the store, by content key; they are held for the run from here on."""
        if not content_keys:
            return {}
        sets = [run_key(run_id, keys.HELD), run_key(run_id, keys.SHARED)]
        texts = cast("list[bytes | None]", self._take([*sets, *map(result_key, content_keys)]))
        return {key: json.loads(text) for key, text in zip(content_keys, texts, strict=True) if text is not None}

    def put_shared(
        self, run_id: str, key: str, value: Mapping[str, Any], usage: Mapping[str, float] | None = None
    ) -> None:
        """Keep a result under its content key and hold it for the run.

        The first result stands, so that all readers see the same one.  `usage` is counted for the run in the same
        trip (hundreds of answers arrive in a second), and once when this is sent twice.
        """
        names = [run_key(run_id, part) for part in (keys.HELD, keys.SHARED)]
        counts = [part for name, count in (usage or {}).items() for part in (name, repr(count))]
        self._put(run_id, [*names, result_key(key), run_key(run_id, keys.USAGE)], [json.dumps(value), *counts])

    def put_checkpoint(self, run_id: str, key: str, data: bytes) -> None:
        """Keep how far a job is under its content key; the latest stands."""
        self.redis.set(result_key(key), data)
        self.hold(run_id, result_key(key))

    def checkpoint(self, run_id: str, key: str) -> bytes | None:
        """The latest checkpoint under this key; it is held for the run from here on."""
        self.hold(run_id, result_key(key))
        return cast("bytes | None", self.redis.get(result_key(key)))

    def hold(self, run_id: str, key: str, held: str = keys.HELD) -> bool:
        """Hold a key of any type for the run, in its set `held`; returns whether it is there."""
        return bool(self._hold([run_key(run_id, held), run_key(run_id, keys.SHARED), key]))

    def release_shared(self, run_id: str, kept_s: int = KEPT_S) -> None:
        """The run needs none of its results any more: those that no other run holds expire after `kept_s` seconds.

        Where the server is nearly full, those that expire first are removed at once.
        """
        self.release(run_id, keys.HELD, kept_s)
        Retention(self.redis).make_room()

    def release_clusterings(self, run_id: str, kept_s: int = KEPT_S) -> None:
        """The run has ended: clusterings that no other run holds expire after `kept_s` seconds."""
        self.release(run_id, keys.HELD_CLUSTERINGS, kept_s)

    def release(self, run_id: str, held: str, kept_s: int) -> None:
        others = [other for other in self.run_ids() if other != run_id]
        self._release(run_id, [run_key(run, held) for run in (run_id, *others)], [kept_s])


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
# KEYS: results without an end.  ARGV: seconds.  Those of them that no run holds expire now.
_EXPIRE_UNHELD = f"""
{_HELD}
for _, key in ipairs(KEYS) do
    if redis.call("TTL", key) == -1 and not held(key) then redis.call("EXPIRE", key, ARGV[1]) end
end
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
        found = {name: self._published(name) for name in self.run_ids()}
        ended = [name for name, (state, updated) in found.items() if state == "finished" and updated <= before]
        return [name for name in ended if not self.redis.exists(run_key(name, keys.LEASE))]

    def remove_finished(self, run_id: str, before: float) -> bool:
        """Remove a run's own keys if it was published as finished before this time and no process drives it."""
        own = list(self.keys_of(run_id))
        if len(own) > RUN_KEYS_AT_ONCE:  # those of a run that has finished are few
            return False
        first = [run_key(run_id, keys.METADATA), run_key(run_id, keys.LEASE), keys.RUNS]
        names = [*(name.encode() for name in first), *own]
        return bool(self.redis.eval(_REMOVE_RUN, len(names), *names, run_id, repr(before)))

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
            removed += cast(int, self.redis.eval(_REMOVE_RESULTS, len(names), *names, most))
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

    def _published(self, run_id: str) -> tuple[str, float]:
        text = cast("bytes | None", self.redis.hget(run_key(run_id, keys.METADATA), keys.STATUS))
        status = json.loads(text) if text else {}
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
