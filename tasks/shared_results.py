"""The part of the store that keeps what runs share: answers, verdicts, clusterings, each under its content's hash."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from tasks.keys import PREFIX, run_key, text_of
from tasks.run_records import RunRecords


class SharedResults(RunRecords):
    """See `tasks.store.Store`."""

    def shared(self, run_id: str, keys: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Which of these content-addressed results are there."""
        values = cast("list[bytes | None]", self.redis.mget([PREFIX + k for k in keys])) if keys else []
        found = {k: json.loads(v) for k, v in zip(keys, values, strict=True) if v is not None}
        if found:
            self.redis.sadd(run_key(run_id, "shared"), *(PREFIX + k for k in found))
        return found

    def put_shared(
        self, run_id: str, key: str, value: Mapping[str, Any], usage: Mapping[str, float] | None = None
    ) -> None:
        """Keep a result under its content key; the first one stands, so that all readers see one and the same.

        `usage` is counted for the run in the same trip: hundreds of answers come in a second.
        """
        pipe = self.redis.pipeline()
        pipe.sadd(run_key(run_id, "shared"), PREFIX + key)
        pipe.set(PREFIX + key, json.dumps(value), nx=True)
        for name, count in (usage or {}).items():
            pipe.hincrbyfloat(run_key(run_id, "usage"), name, count)
        pipe.execute()

    def put_clustering(self, run_id: str, clustering: str, labels: bytes, descriptions: str) -> None:
        key = f"{PREFIX}clustering:{clustering}"
        self.redis.sadd(run_key(run_id, "shared"), key)
        self.redis.hset(key, mapping={"labels": labels, "descriptions": descriptions})

    def labels(self, clustering: str) -> bytes:
        """The packed labels of a clustering.  Raises: KeyError."""
        found = self.redis.hget(f"{PREFIX}clustering:{clustering}", "labels")
        if found is None:
            raise KeyError(f"no clustering {clustering!r} in the store")
        return cast(bytes, found)

    def has_clustering(self, clustering: str) -> bool:
        return bool(self.redis.exists(f"{PREFIX}clustering:{clustering}"))

    def descriptions(self, run_id: str) -> list[dict[str, Any]]:
        """What the run's clusters hold: the user's own descriptions, or those of its clustering.  Raises: KeyError."""
        own, clustering = self.fact(run_id, "descriptions"), self.fact(run_id, "clustering")
        text = own or text_of(self.redis.hget(f"{PREFIX}clustering:{clustering}", "descriptions"))
        if text is None:
            raise KeyError(f"no clustering of run {run_id!r} in the store")
        return cast("list[dict[str, Any]]", json.loads(text))
