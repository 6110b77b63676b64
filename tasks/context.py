"""What a task finds around it in a worker: the store named by WHETSTONE_REDIS_URL, and through it its run."""

from __future__ import annotations

import hashlib
import json
import os
from functools import cache
from typing import Any

from tasks.records import Example
from tasks.redis_url import store_url
from tasks.store import Store, connect


@cache
def store() -> Store:
    """The store of this process.  Raises: RuntimeError when the environment names none."""
    url = os.environ.get("WHETSTONE_REDIS_URL")
    if not url:
        raise RuntimeError("WHETSTONE_REDIS_URL is not set: it names the Redis or Valkey of the farm")
    return Store(connect(store_url(url)))


def examples(run_id: str, which: str) -> list[Example]:
    return [Example(**values) for values in store().examples(run_id)[which]]


def content_hash(*parts: Any) -> str:
    """The sha256 of the canonical JSON of all parts: equal content has an equal hash, whoever computes it."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
