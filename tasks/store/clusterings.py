"""Clusterings of a vocabulary, each under its content hash; runs share them.

A run holds its clustering until it ends, as it holds results until they are recorded (tasks/store/results.py).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

import redis

from tasks.models import ClusterFigures
from tasks.store import keys
from tasks.store.fence import Fence
from tasks.store.keys import clustering_key, run_key
from tasks.store.results import SharedResults


class Clusterings:
    """Typed access to the clusterings in one Redis or Valkey."""

    def __init__(self, client: redis.Redis, fence: Fence) -> None:
        self._redis, self._results = client, SharedResults(client, fence)

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
        fields: dict[Any, Any] = {keys.LABELS: labels, keys.DESCRIPTIONS: descriptions, keys.FIGURES: figures.to_json()}
        fields[keys.ENDS] = ends
        self._redis.hset(clustering_key(clustering), mapping=fields)
        self.hold(run_id, clustering)

    def hold(self, run_id: str, clustering: str) -> bool:
        """Whether there is such a clustering; it does not expire then before the run calls `release`."""
        return self._results.hold(run_id, clustering_key(clustering), keys.HELD_CLUSTERINGS)

    def release(self, run_id: str, other_runs: Sequence[str], kept_s: int) -> None:
        """The run has ended: clusterings that no other run holds expire after `kept_s` seconds."""
        self._results.release(run_id, other_runs, kept_s, keys.HELD_CLUSTERINGS)

    def chosen(self, run_id: str, clustering: str = "") -> str:
        """The clustering of this content hash; without one the run's.

        Raises: LookupError when the run has none.
        """
        if clustering:
            return clustering
        found = cast("bytes | None", self._redis.hget(run_key(run_id, keys.METADATA), keys.CLUSTERING))
        if found is None:
            raise LookupError(f"run {run_id} has no clustering")
        return found.decode()

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
        """What the clusters of the run's clustering hold, or of another one.

        Of the run's own one these are the descriptions that the run was given, if it was given any.
        """
        metadata = self._redis.hmget(run_key(run_id, keys.METADATA), [keys.DESCRIPTIONS, keys.CLUSTERING])
        own, chosen = cast("list[bytes | None]", metadata)
        if own is not None and clustering in ("", (chosen or b"").decode()):
            return cast("list[dict[str, Any]]", json.loads(own))
        return self.made_descriptions(self.chosen(run_id, clustering))

    def made_descriptions(self, clustering: str) -> list[dict[str, Any]]:
        """What the clustering itself says of its clusters, with examples of their tokens."""
        return cast("list[dict[str, Any]]", json.loads(self._field(clustering, keys.DESCRIPTIONS)))

    def _field(self, clustering: str, name: str) -> bytes:
        found = self._redis.hget(clustering_key(clustering), name)
        if found is None:
            raise KeyError(f"no clustering {clustering!r} in the store")
        return cast(bytes, found)
