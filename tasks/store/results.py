"""Results that runs share, each under the hash of all that determines it, and clusterings of a vocabulary likewise.

What a run has read or written is held for it until the run releases it, and then expires (tasks/store/retention.py).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from tasks.records import ClusterFigures
from tasks.store import keys
from tasks.store.client import StoreAccess
from tasks.store.keys import clustering_key, result_key, run_key
from tasks.store.retention import KEPT_S, Retention

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
# KEYS: the run's set of held results, and all runs.  ARGV: what stands before and after a run's id in the key of its
# set, and seconds.  Those that no other run holds expire.
_RELEASE = """
local sets = {KEYS[1]}
for _, run in ipairs(redis.call("SMEMBERS", KEYS[2])) do
    local other = ARGV[1] .. run .. ARGV[2]
    if other ~= KEYS[1] then sets[#sets + 1] = other end
end
for _, result in ipairs(redis.call("SDIFF", unpack(sets))) do redis.call("EXPIRE", result, ARGV[3]) end
redis.call("UNLINK", KEYS[1])
"""


class SharedResults(StoreAccess):
    def shared(self, run_id: str, content_keys: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Those of the results that are in the store, by content key; they are held for the run from here on."""
        if not content_keys:
            return {}
        names = [run_key(run_id, keys.HELD), run_key(run_id, keys.SHARED), *map(result_key, content_keys)]
        texts = cast("list[bytes | None]", self.redis.register_script(_TAKE)(names))
        return {key: json.loads(text) for key, text in zip(content_keys, texts, strict=True) if text is not None}

    def put_shared(
        self, run_id: str, key: str, value: Mapping[str, Any], usage: Mapping[str, float] | None = None
    ) -> None:
        """Keep a result under its content key and hold it for the run; the first one stands.

        `usage` is counted for the run in the same trip (hundreds of answers arrive in a second), and once.
        """
        held, shared, counters = (run_key(run_id, part) for part in (keys.HELD, keys.SHARED, keys.USAGE))
        counts = [part for name, count in (usage or {}).items() for part in (name, repr(count))]
        self._run_script(_PUT, run_id, [held, shared, result_key(key), counters], [json.dumps(value), *counts])

    def put_checkpoint(self, run_id: str, key: str, data: bytes) -> None:
        """Keep how far a job is under its content key; the latest stands."""
        self.redis.set(result_key(key), data)
        self._hold(run_id, result_key(key))

    def checkpoint(self, run_id: str, key: str) -> bytes | None:
        """The latest checkpoint under this key; it is held for the run from here on."""
        self._hold(run_id, result_key(key))
        return cast("bytes | None", self.redis.get(result_key(key)))

    def release_shared(self, run_id: str, kept_s: int = KEPT_S) -> None:
        """The run needs none of its results any more: those that no other run holds expire, or make room at once."""
        self._release(run_id, keys.HELD, kept_s)
        Retention(self.redis).make_room()

    def _hold(self, run_id: str, key: str, held: str = keys.HELD) -> bool:
        """Hold a key of any type for the run, in its set `held`; returns whether it is there."""
        names = [run_key(run_id, held), run_key(run_id, keys.SHARED), key]
        return bool(self.redis.register_script(_HOLD)(names))

    def _release(self, run_id: str, held: str, kept_s: int) -> None:
        self._run_script(_RELEASE, run_id, [run_key(run_id, held), keys.RUNS], [keys.RUN, f":{held}", kept_s])


class Clusterings(SharedResults):
    """Clusterings of a vocabulary, each under its content hash; a run needs its own until it ends."""

    def put(
        self,
        run_id: str,
        clustering: str,
        labels: bytes,
        descriptions: str,
        figures: ClusterFigures = ClusterFigures(),
        ends: bytes = b"",
    ) -> None:
        """Record a clustering, and hold it for the run.  `labels` and `ends` are packed, `descriptions` are JSON."""
        fields: dict[Any, Any] = {keys.LABELS: labels, keys.DESCRIPTIONS: descriptions}
        fields |= {keys.FIGURES: figures.to_json(), keys.ENDS: ends}
        self.redis.hset(clustering_key(clustering), mapping=fields)
        self.hold(run_id, clustering)

    def hold(self, run_id: str, clustering: str) -> bool:
        """Whether there is such a clustering; it does not expire then before the run ends."""
        return self._hold(run_id, clustering_key(clustering), keys.HELD_CLUSTERINGS)

    def release(self, run_id: str, kept_s: int = KEPT_S) -> None:
        """The run has ended: clusterings that no other run holds expire."""
        self._release(run_id, keys.HELD_CLUSTERINGS, kept_s)

    def chosen(self, run_id: str, clustering: str = "") -> str:
        """The clustering of this content hash; without one the run's."""
        if found := clustering or self.metadata(run_id, keys.CLUSTERING):
            return found
        raise LookupError(f"run {run_id} has no clustering")

    def labels(self, clustering: str) -> bytes:
        """The packed labels."""
        return self._field(clustering, keys.LABELS)

    def ends(self, clustering: str) -> bytes:
        """The packed classes of the tokens that end a sentence."""
        return self._field(clustering, keys.ENDS)

    def figures(self, clustering: str) -> ClusterFigures:
        """Which cluster ends a turn, which is pinned, and the log-odds of each."""
        return ClusterFigures.from_json(self._field(clustering, keys.FIGURES))

    def descriptions(self, run_id: str, clustering: str = "") -> list[dict[str, Any]]:
        """What the clusters of a clustering hold: of the run's own, the descriptions that the run was given, if any."""
        own = self.metadata(run_id, keys.DESCRIPTIONS)
        if own is not None and clustering in ("", self.metadata(run_id, keys.CLUSTERING)):
            return cast("list[dict[str, Any]]", json.loads(own))
        return self.made_descriptions(self.chosen(run_id, clustering))

    def made_descriptions(self, clustering: str) -> list[dict[str, Any]]:
        """What the clustering itself says of its clusters, with examples of their tokens."""
        return cast("list[dict[str, Any]]", json.loads(self._field(clustering, keys.DESCRIPTIONS)))

    def _field(self, clustering: str, name: str) -> bytes:
        found = self.redis.hget(clustering_key(clustering), name)
        if found is None:
            raise KeyError(f"no clustering {clustering!r} in the store")
        return cast(bytes, found)
