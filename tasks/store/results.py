"""Results that runs share, each under the hash of all that determines it, and how long they are kept.

A result that a run has read or written is held for it until the run calls `release`: it cannot expire meanwhile, and
it is not removed to make room (tasks/store/results.py).  A result that no run holds expires some days after its last
use.  A run that needs it again computes it again.

Each script sees the results and the sets of the runs at one moment, so a result cannot be released by one run in the
instant in which another run takes it.
"""

from __future__ import annotations

import contextlib
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
from tasks.store.ownership import Fence

KEPT_S = 30 * 24 * 3600

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


class SharedResults:
    """Typed access to the shared results in one Redis or Valkey."""

    def __init__(self, client: redis.Redis, fence: Fence) -> None:
        self._redis = client
        self._release, self._put = fence.script(_RELEASE), fence.script(_PUT)
        self._take, self._hold = client.register_script(_TAKE), client.register_script(_HOLD)

    def take(self, run_id: str, content_keys: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Those of the results that are in the store, by content key; they are held for the run from here on."""
        if not content_keys:
            return {}
        sets = [run_key(run_id, keys.HELD), run_key(run_id, keys.SHARED)]
        texts = cast("list[bytes | None]", self._take([*sets, *map(result_key, content_keys)]))
        return {key: json.loads(text) for key, text in zip(content_keys, texts, strict=True) if text is not None}

    def put(self, run_id: str, key: str, value: Mapping[str, Any], usage: Mapping[str, float]) -> None:
        """Keep a result under its content key and hold it for the run.

        The first result stands, so that all readers see the same one.  `usage` is counted for the run in the same
        trip (hundreds of answers arrive in a second), and once when this is sent twice.
        """
        names = [run_key(run_id, part) for part in (keys.HELD, keys.SHARED)]
        counts = [part for name, count in usage.items() for part in (name, repr(count))]
        self._put(run_id, [*names, result_key(key), run_key(run_id, keys.USAGE)], [json.dumps(value), *counts])

    def hold(self, run_id: str, key: str, held: str) -> bool:
        """Hold a key of any type for the run, in its set `held`; returns whether it is there."""
        return bool(self._hold([run_key(run_id, held), run_key(run_id, keys.SHARED), key]))

    def put_bytes(self, run_id: str, key: str, data: bytes) -> None:
        """Keep bytes under a content key in place of those that are there, and hold them for the run."""
        self._redis.set(result_key(key), data)
        self.hold(run_id, result_key(key), keys.HELD)

    def take_bytes(self, run_id: str, key: str) -> bytes | None:
        """The bytes under a content key, which are held for the run from here on; None where there are none."""
        self.hold(run_id, result_key(key), keys.HELD)
        return cast("bytes | None", self._redis.get(result_key(key)))

    def release(self, run_id: str, other_runs: Sequence[str], kept_s: int = KEPT_S, held: str = keys.HELD) -> None:
        """The run needs nothing more of its set `held`: what none of the others holds expires."""
        self._release(run_id, [run_key(run, held) for run in (run_id, *other_runs)], [kept_s])


# What the store may forget, and when: finished runs, and results and clusterings that no run holds.


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
