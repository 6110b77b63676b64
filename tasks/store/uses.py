"""How often test questions have been used: those that have measured a choice before are no longer unseen."""

from __future__ import annotations

from collections.abc import Sequence

import redis

from tasks.store.keys import test_uses_key


def record_use(client: redis.Redis, questions: Sequence[str], use: str) -> int:
    """Record that test questions are used; returns how many uses there were of any of them, this one included.

    questions: their content hashes; use: what identifies a use, which counts once.
    """
    found = [test_uses_key(question) for question in questions]
    with client.pipeline() as pipeline:
        for key in found:
            pipeline.sadd(key, use)
        pipeline.sunion(found)
        return len(pipeline.execute()[-1])
