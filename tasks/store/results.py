"""Results that runs share, each under the hash of all that determines it, and how long they are kept.

A result that a run has read or written is held for it until the run calls `release`: it cannot expire meanwhile, and
it is not removed to make room (tasks/store/retention.py).  A result that no run holds expires some days after its last
use.  A run that needs it again computes it again.

Each script sees the results and the sets of the runs at one moment, so a result cannot be released by one run in the
instant in which another run takes it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

import redis

from tasks.store import keys
from tasks.store.fence import Fence
from tasks.store.keys import result_key, run_key

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
