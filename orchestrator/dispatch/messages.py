"""A run's messages, in the queues and among those that were taken and not acknowledged."""

from __future__ import annotations

import base64
import json
from typing import cast

import redis

from tasks.queues import QUEUES

UNACKED, UNACKED_INDEX = "unacked", "unacked_index"  # kombu's names


def count(broker: redis.Redis, run_id: str) -> int:
    """How many messages of the run wait or are in somebody's hands.  Raises: redis.RedisError."""
    waiting = [_run_of(raw) for queue in QUEUES for raw in cast("list[bytes]", broker.lrange(queue, 0, -1))]
    taken = [_run_of(text, taken=True) for text in cast("list[bytes]", broker.hvals(UNACKED))]
    return [*waiting, *taken].count(run_id)


def drop_waiting(broker: redis.Redis, run_id: str) -> int:
    """Take the run's messages out of the queues.  Returns how many there were.  Raises: redis.RedisError."""
    dropped = 0
    for queue in QUEUES:
        for raw in cast("list[bytes]", broker.lrange(queue, 0, -1)):
            if _run_of(raw) == run_id:
                dropped += broker.lrem(queue, 1, cast(str, raw))
    return dropped


def drop_taken(broker: redis.Redis, run_id: str) -> int:
    """Forget messages that a worker took and never acknowledged: only for a run that no living worker has in hand.

    Returns how many there were.  Raises: redis.RedisError.
    """
    held = cast("dict[bytes, bytes]", broker.hgetall(UNACKED))
    tags = [tag for tag, text in held.items() if _run_of(text, taken=True) == run_id]
    if tags:
        broker.hdel(UNACKED, *tags)
        broker.zrem(UNACKED_INDEX, *tags)
    return len(tags)


def _run_of(line: bytes, *, taken: bool = False) -> str | None:
    """The run that a message of ours belongs to: the first of its task's arguments.  None for what is none of ours."""
    try:
        message = json.loads(line)[0] if taken else json.loads(line)
        body = message["body"]
        if message["properties"].get("body_encoding") == "base64":
            body = base64.b64decode(body)
        return str(json.loads(body)[0][0])
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError):
        return None
