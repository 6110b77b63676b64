"""The surroundings of a task in a worker: the store named by WHETSTONE_REDIS_URL, and the examples of its run."""

from __future__ import annotations

import hashlib
import json
import os
from functools import cache
from typing import Any

from tasks.message import discard
from tasks.models import Example
from tasks.store.address import ENVIRONMENT_VARIABLE, redis_url_of
from tasks.store.store import Store, open_store


@cache
def store() -> Store:
    """The store of this process."""
    if not os.environ.get(ENVIRONMENT_VARIABLE):
        raise RuntimeError(f"{ENVIRONMENT_VARIABLE} is not set: it names the Redis or Valkey of the farm")
    return open_store(redis_url_of(os.environ))


def store_of(run_id: str) -> Store:
    """The store, for a task of this run."""
    if not store().has_run(run_id):
        raise discard(f"no run {run_id!r} in the store")
    return store()


def examples(run_id: str, which: str) -> tuple[Example, ...]:
    return store().examples(run_id)[which]


def content_hash(*parts: Any) -> str:
    """The sha256 of the canonical JSON of all parts: equal content has an equal hash in every process."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
