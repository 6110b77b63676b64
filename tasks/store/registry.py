"""The roster: which workers there are and what each says about itself, and what is paused.

    whetstone:worker:<node name>    a worker's own report, as JSON; gone soon after the worker
    whetstone:workers               set: whose reports there may be
    whetstone:paused                hash: a queue or a node name -> since when, seconds of the epoch

A node name is Celery's: "gpu@host".  No run owns these keys, and none of them outlives its purpose.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any, cast

import redis

PREFIX = "whetstone:worker:"
NAMES = "whetstone:workers"
PAUSED = "whetstone:paused"


class WorkerRegistry:
    """Typed access to the roster in one Redis or Valkey."""

    def __init__(self, client: redis.Redis) -> None:
        self.redis = client

    def put(self, worker: str, report: Mapping[str, Any], kept_s: int) -> None:
        """Keep a worker's report for `kept_s` seconds; a later one replaces it."""
        pipe = self.redis.pipeline()
        pipe.sadd(NAMES, worker)
        pipe.set(PREFIX + worker, json.dumps(report), ex=kept_s)
        pipe.execute()

    def forget(self, worker: str) -> None:
        pipe = self.redis.pipeline()
        pipe.srem(NAMES, worker)
        pipe.delete(PREFIX + worker)
        pipe.execute()

    def workers(self) -> list[dict[str, Any]]:
        """The reports of all workers that told lately, by name."""
        names = sorted(name.decode() for name in cast("set[bytes]", self.redis.smembers(NAMES)))
        texts = cast("list[bytes | None]", self.redis.mget([PREFIX + name for name in names])) if names else []
        if gone := [name for name, text in zip(names, texts, strict=True) if text is None]:
            self.redis.srem(NAMES, *gone)
        return [json.loads(text) for text in texts if text is not None]

    def is_alive(self, worker: str) -> bool:
        return bool(self.redis.exists(PREFIX + worker))

    def pause(self, name: str) -> None:
        """Remember that a queue or a worker is paused; the first time stands."""
        self.redis.hsetnx(PAUSED, name, str(time.time()))

    def resume(self, name: str) -> bool:
        """Returns whether it was paused."""
        return bool(self.redis.hdel(PAUSED, name))

    def paused(self) -> dict[str, float]:
        """What is paused, and since when in seconds of the epoch."""
        found = cast("dict[bytes, bytes]", self.redis.hgetall(PAUSED))
        return {name.decode(): float(since) for name, since in found.items()}
