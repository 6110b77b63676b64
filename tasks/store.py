"""The store: all that the farm knows of its runs, in one Redis or Valkey.  Its keys are in `tasks/keys.py`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import cast

import redis
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

from tasks.keys import run_key
from tasks.ledger import Ledger
from tasks.plan_records import PlanRecords
from tasks.shared_results import SharedResults


def connect(url: str) -> redis.Redis:
    """A client that outlives a restart of the server: it tries again for about a quarter of a minute, then raises."""
    return redis.Redis.from_url(
        url,
        retry=Retry(ExponentialBackoff(cap=1.0, base=0.05), retries=20),
        retry_on_error=[redis.ConnectionError, redis.TimeoutError, redis.exceptions.BusyLoadingError],
        health_check_interval=15,
        socket_connect_timeout=5,
    )


class Store(PlanRecords, SharedResults):
    """Typed access to one Redis or Valkey.  Every method is safe to call twice with the same arguments."""

    def delete_run(self, run_id: str) -> int:
        """Forget a run, and the shared results that no other run has used.  Returns the number of keys removed."""
        others = [run_key(other, "shared") for other in self.run_ids() if other != run_id]
        mine = run_key(run_id, "shared")
        shared = cast("set[bytes]", self.redis.sdiff([mine, *others]))
        keys = [*shared, *self.redis.scan_iter(match=run_key(run_id, "*"), count=1000)]
        for start in range(0, len(keys), 500):
            self.redis.unlink(*keys[start : start + 500])
        return len(keys)

    def put_prompt(self, run_id: str, name: str, text: str) -> None:
        self.redis.hset(run_key(run_id, "prompts"), name, text)

    def prompt_names(self, run_id: str) -> list[str]:
        return sorted(name.decode() for name in cast("list[bytes]", self.redis.hkeys(run_key(run_id, "prompts"))))

    def prompts(self, run_id: str, known: Iterable[str] = ()) -> dict[str, str]:
        key = run_key(run_id, "prompts")
        names = sorted({f.decode() for f in cast("list[bytes]", self.redis.hkeys(key))} - set(known))
        values = cast("list[bytes | None]", self.redis.hmget(key, names)) if names else []
        return {n: v.decode() for n, v in zip(names, values, strict=True) if v is not None}

    def add_usage(self, run_id: str, counts: Mapping[str, float]) -> None:
        pipe = self.redis.pipeline()
        for name, value in counts.items():
            pipe.hincrbyfloat(run_key(run_id, "usage"), name, value)
        pipe.execute()

    def usage(self, run_id: str) -> dict[str, float]:
        found = cast("dict[bytes, bytes]", self.redis.hgetall(run_key(run_id, "usage")))
        return {k.decode(): float(v) for k, v in found.items()}

    def add_answerers(self, run_id: str, role: str, names: Iterable[str]) -> None:
        """Note who answered for the run in the role of "reflector" or "judge" (see tasks/openai/answerer.py)."""
        if members := [json.dumps([role, name]) for name in names]:
            self.redis.sadd(run_key(run_id, "answerers"), *members)

    def answerers(self, run_id: str, role: str) -> list[str]:
        """Who has answered for the run in this role, in the order of the names."""
        found = (json.loads(m) for m in cast("set[bytes]", self.redis.smembers(run_key(run_id, "answerers"))))
        return sorted(name for of, name in found if of == role)

    def ledger(self, run_id: str) -> Ledger:
        """The run's money: its usage and its calls under way."""
        return Ledger(self.redis, run_key(run_id, "usage"), run_key(run_id, "calls"))

    def put_file(self, run_id: str, name: str, data: bytes) -> None:
        """A file that a worker made for the run's output folder."""
        self.redis.hset(run_key(run_id, "files"), name, data)

    def file(self, run_id: str, name: str) -> bytes | None:
        return cast("bytes | None", self.redis.hget(run_key(run_id, "files"), name))
