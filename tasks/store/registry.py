"""The workers' own reports, and what is paused.

A node name is Celery's: "gpu@host".  These keys belong to no run, and a report expires soon after its worker.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from typing import Any, Required, cast

import redis
from typing_extensions import TypedDict

from tasks.store.keys import PAUSED, WORKERS, worker_key
from tasks.validation import InvalidData, checked_json

log = logging.getLogger(__name__)


class WorkerReport(TypedDict, total=False):
    """What is read of a report; a worker of another version may leave something out, and adds more."""

    worker: Required[str]
    queue: str
    host: str
    pid: int
    version: str
    slots: int
    started: float  # seconds of the epoch
    tasks: list[dict[str, Any]]
    disk_free: int  # bytes
    clock_offset_s: float
    state: str | None  # what admission control does with messages, and why
    why: str | None


class WorkerRegistry:
    """Typed access to reports and pauses in one Redis or Valkey.  Raises: redis.RedisError."""

    def __init__(self, client: redis.Redis) -> None:
        self.redis = client

    def put(self, worker: str, report: Mapping[str, Any], kept_s: int) -> None:
        """Keep a worker's report for `kept_s` seconds; a later one replaces it."""
        pipe = self.redis.pipeline()
        pipe.sadd(WORKERS, worker)
        pipe.set(worker_key(worker), json.dumps(report), ex=kept_s)
        pipe.execute()

    def forget(self, worker: str) -> None:
        pipe = self.redis.pipeline()
        pipe.srem(WORKERS, worker)
        pipe.delete(worker_key(worker))
        pipe.execute()

    def workers(self) -> list[dict[str, Any]]:
        """The reports that have not expired, in the order of the workers' names; a malformed one is left out."""
        names = sorted(name.decode() for name in cast("set[bytes]", self.redis.smembers(WORKERS)))
        texts = cast("list[bytes | None]", self.redis.mget(map(worker_key, names))) if names else []
        if gone := [name for name, text in zip(names, texts, strict=True) if text is None]:
            self.redis.srem(WORKERS, *gone)
        return [report for text in texts if text is not None and (report := _read(text)) is not None]

    def is_alive(self, worker: str) -> bool:
        return bool(self.redis.exists(worker_key(worker)))

    def pause(self, name: str) -> None:
        """Record that a queue or a worker is paused; the first time stands."""
        self.redis.hsetnx(PAUSED, name, str(time.time()))

    def resume(self, name: str) -> bool:
        """Returns whether it was paused."""
        return bool(self.redis.hdel(PAUSED, name))

    def paused(self) -> dict[str, float]:
        """What is paused, and since when in seconds of the epoch."""
        found = cast("dict[bytes, bytes]", self.redis.hgetall(PAUSED))
        return {name.decode(): float(since) for name, since in found.items()}


def _read(text: bytes) -> dict[str, Any] | None:
    try:
        report: dict[str, Any] = checked_json(WorkerReport, text)
    except InvalidData as error:
        log.warning("a worker's report is left out: %s", error)
        return None
    return report
