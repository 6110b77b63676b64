"""What was set aside: messages that no worker can read, and keys of the broker with another type than they must have.

The list is in the database of the messages, so that one transaction takes an entry out of a queue and adds it here.
It has the last `MOST` entries, each with the beginning of its text.
"""

from __future__ import annotations

import dataclasses
import json
import time
from dataclasses import dataclass
from typing import Any, cast

import redis

from tasks.escape import shorten
from tasks.store.keys import SET_ASIDE, set_aside_key
from tasks.validation import InvalidData, parse_json

MOST = 100  # entries
LONGEST_TEXT = 10_000  # characters of an entry


@dataclass(frozen=True)
class SetAsideEntry:
    """`at` in seconds of the epoch; `place` is where it was; `reason` is one line; `text` is what was there."""

    at: float
    place: str
    reason: str
    text: str


class SetAside:
    """The list of one broker.  All methods raise redis.RedisError."""

    def __init__(self, broker: redis.Redis) -> None:
        self.redis = broker

    def add(self, place: str, reason: str, text: bytes | str, pipe: Any = None) -> None:
        """Add an entry; with a `pipe`, as part of its transaction."""
        if isinstance(text, bytes):
            text = text[: 4 * LONGEST_TEXT].decode("utf-8", "backslashreplace")
        entry = SetAsideEntry(round(time.time(), 3), place, reason, shorten(text, LONGEST_TEXT))
        target = self.redis.pipeline() if pipe is None else pipe
        target.lpush(SET_ASIDE, json.dumps(dataclasses.asdict(entry)))
        target.ltrim(SET_ASIDE, 0, MOST - 1)
        if pipe is None:
            target.execute()

    def rename(self, key: str, reason: str) -> None:
        """Move a key of the broker out of the way, and add an entry that names its new place."""
        new = set_aside_key(key)
        pipe = self.redis.pipeline()
        pipe.rename(key, new)
        self.add(key, reason, f"the key is now {new}", pipe)
        pipe.execute()

    def entries(self) -> list[SetAsideEntry]:
        """The latest first; what is malformed itself is left out."""
        found = []
        for text in cast("list[bytes]", self.redis.lrange(SET_ASIDE, 0, MOST - 1)):
            try:
                found.append(parse_json(SetAsideEntry, text))
            except InvalidData:
                continue
        return found

    def count(self) -> int:
        return self.redis.llen(SET_ASIDE)

    def clear(self) -> int:
        """Delete all entries, and the keys that were moved.  Returns how many entries there were."""
        count = self.count()
        self.redis.unlink(SET_ASIDE, *self.redis.scan_iter(match=set_aside_key("*"), count=1000))
        return count
