"""How often each test set has been used: a set that has chosen between systems is no longer held out."""

from __future__ import annotations

import redis

from tasks.store.keys import test_uses_key


def record_use(client: redis.Redis, questions: str, use: str) -> int:
    """Record that a test set is used; returns how often it has been.

    questions: the content hash of the set; use: what identifies a use, which counts once.
    """
    client.sadd(test_uses_key(questions), use)
    return int(client.scard(test_uses_key(questions)))
