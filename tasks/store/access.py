"""What all typed access to the store shares: the client, and writes that carry the number of the run's owner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import redis

from tasks.store.fence import Fence, Part


class StoreAccess:
    """One Redis or Valkey.  Every method is safe to call twice with the same arguments.

    All raise redis.RedisError when the server cannot be reached for as long as `client` retries.  With the `number` of
    a run's owner those that write raise RunTaken after another process has taken the run over.
    """

    def __init__(self, client: redis.Redis, number: int | None = None) -> None:
        self.redis = client
        self.fence = Fence(client, number)

    def _write(self, run_id: str, *commands: Sequence[Part]) -> list[Any]:
        return self.fence.write(run_id, *commands)

    def _hash_without(self, key: str, excluded: set[str]) -> dict[str, bytes]:
        """The fields of a hash but for these: what the caller has is not sent again."""
        names = sorted({name.decode() for name in cast("list[bytes]", self.redis.hkeys(key))} - excluded)
        values = cast("list[bytes | None]", self.redis.hmget(key, names)) if names else []
        return {name: value for name, value in zip(names, values, strict=True) if value is not None}


def text_of(value: Any) -> str | None:
    """A value of the server as text; None where there is none."""
    return None if value is None else cast(bytes, value).decode()
