"""What a run leaves in the store for its output folder: prompts, files, usage and money, and who answered."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, cast

import redis

from tasks.store import keys
from tasks.store.access import StoreAccess
from tasks.store.keys import result_key, run_key
from tasks.store.ledger import Ledger

# KEYS: the run's counters.  ARGV: names and values.
_RESTORE_USAGE = """
if redis.call("EXISTS", KEYS[1]) == 0 then redis.call("HSET", KEYS[1], unpack(ARGV)) end
"""


class RunOutputs(StoreAccess):
    """What a run leaves, by run id."""

    def __init__(self, client: redis.Redis, number: int | None = None) -> None:
        super().__init__(client, number)
        self._restore_usage = self.fence.script(_RESTORE_USAGE)

    def put_prompt(self, run_id: str, name: str, text: str) -> None:
        self.redis.hset(run_key(run_id, keys.PROMPTS), name, text)

    def prompt_names(self, run_id: str) -> list[str]:
        return sorted(name.decode() for name in cast("list[bytes]", self.redis.hkeys(run_key(run_id, keys.PROMPTS))))

    def prompts(self, run_id: str, cached: Iterable[str] = ()) -> dict[str, str]:
        """The texts of the run's calls by file name, without those that the caller has (`cached`)."""
        found = self._hash_without(run_key(run_id, keys.PROMPTS), set(cached))
        return {name: text.decode() for name, text in found.items()}

    def put_file(self, run_id: str, name: str, data: bytes) -> None:
        """Keep a file for the run: data of a job by its name, or what a job has made by the job's key."""
        self._write(run_id, ("HSET", run_key(run_id, keys.FILES), name, data))

    def file(self, run_id: str, name: str) -> bytes | None:
        return cast("bytes | None", self.redis.hget(run_key(run_id, keys.FILES), name))

    def forget_file(self, run_id: str, key: str) -> None:
        """Delete what a job has made, and its result: when it is requested again, it is made again."""
        self._write(
            run_id,
            ("HDEL", run_key(run_id, keys.FILES), key),
            ("UNLINK", result_key(key)),
            ("SREM", run_key(run_id, keys.HELD), result_key(key)),
            ("SREM", run_key(run_id, keys.SHARED), result_key(key)),
        )

    def restore_usage(self, run_id: str, counts: Mapping[str, float]) -> None:
        """Where the run has no counters, begin with these: after the store has lost them."""
        parts = [part for name, value in counts.items() for part in (name, repr(float(value)))]
        if parts:
            self._restore_usage(run_id, [run_key(run_id, keys.USAGE)], parts)

    def usage(self, run_id: str) -> dict[str, float]:
        found = cast("dict[bytes, bytes]", self.redis.hgetall(run_key(run_id, keys.USAGE)))
        return {name.decode(): float(value) for name, value in found.items()}

    def ledger(self, run_id: str) -> Ledger:
        """The run's money: its usage and its calls in flight."""
        return Ledger(self.redis, run_key(run_id, keys.USAGE), run_key(run_id, keys.CALLS))

    def add_providers(self, run_id: str, role: str, names: Iterable[str]) -> None:
        """Note who answered for the run in the role of "reflector" or "judge" (tasks/openai/provider.py)."""
        if members := [json.dumps([role, name]) for name in names]:
            self._write(run_id, ("SADD", run_key(run_id, keys.PROVIDERS), *members))

    def providers(self, run_id: str, role: str) -> list[str]:
        """Who has answered for the run in this role, in alphabetical order."""
        found = cast("set[bytes]", self.redis.smembers(run_key(run_id, keys.PROVIDERS)))
        return sorted(name for of, name in map(json.loads, found) if of == role)

    def add_server(self, run_id: str, identity: Mapping[str, Any]) -> None:
        """Note which target server answers for the run."""
        self.redis.sadd(run_key(run_id, keys.SERVERS), json.dumps(identity, sort_keys=True))

    def forget_servers(self, run_id: str) -> None:
        self._write(run_id, ("DEL", run_key(run_id, keys.SERVERS)))

    def servers(self, run_id: str) -> list[dict[str, Any]]:
        """The identities of the target servers that have answered for the run."""
        found = cast("set[bytes]", self.redis.smembers(run_key(run_id, keys.SERVERS)))
        return [json.loads(text) for text in sorted(found)]
