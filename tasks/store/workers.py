"""The workers' own reports, what is paused, and which code this is.

A node name is Celery's: "gpu@host".  These keys belong to no run, and a report expires soon after its worker.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import redis

from tasks.store.keys import PAUSED, PROBE, WORKERS, worker_key


class WorkerRegistry:
    """Typed access to reports and pauses in one Redis or Valkey."""

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

    def check_writes(self) -> None:
        """Write something small: a store that refuses is noticed also by a process that only reads for a while."""
        self.redis.set(PROBE, "1", ex=1)

    def workers(self) -> list[dict[str, Any]]:
        """The reports that have not expired, in the order of the workers' names."""
        names = sorted(name.decode() for name in cast("set[bytes]", self.redis.smembers(WORKERS)))
        texts = cast("list[bytes | None]", self.redis.mget(map(worker_key, names)) if names else [])
        if gone := [name for name, text in zip(names, texts, strict=True) if text is None]:
            self.redis.srem(WORKERS, *gone)
        return [json.loads(text) for text in texts if text is not None]

    def has_report(self, worker: str) -> bool:
        """Whether the worker of this name has a recent report: its event loop, which writes it, runs."""
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


PACKAGES = ("tasks", "workers")
SHOWN = 12  # hexadecimal digits


@cache
def code_version() -> str:
    """Which code this is: the hash of every file of PACKAGES, by name and content: modules, and prompts beside them.

    Two hosts do the same work when they have the same one; with a change on one host alone, two codes have one number
    of the release.
    """
    digest = hashlib.sha256()
    for package in PACKAGES:
        spec = find_spec(package)
        folder = Path((spec and spec.origin) or package).parent
        for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.parent.name != "__pycache__"):
            digest.update(f"{package}/{path.relative_to(folder).as_posix()}\0".encode())
            digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()[:SHOWN]
