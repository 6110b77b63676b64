"""The part of the store that knows runs: what each was started with, what was learnt of it, and its questions.

The part of the store that knows plans: their attempts, what their stages left, what failed, and the bell.

The part of the store that keeps what runs share: answers, verdicts, clusterings, each under its content's hash.

The store: all that the farm knows of its runs, in one Redis or Valkey.  Its keys are in `tasks/store/keys.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import redis

from tasks.models import Run
from tasks.plan import Plan
from tasks.store.keys import CANCELLED, CODE, LIMIT, MODEL, PREFIX, plan_key, run_key, text_of
from tasks.store.ledger import Ledger


class RunRecords:
    """See `tasks.store.store.Store`."""

    def __init__(self, client: redis.Redis) -> None:
        self.redis = client

    def put_run(self, run: Run) -> None:
        self.redis.set(run_key(run.id, "settings"), run.to_json())

    def run(self, run_id: str) -> Run:
        """Raises: KeyError when the store does not know the run."""
        text = self.redis.get(run_key(run_id, "settings"))
        if text is None:
            raise KeyError(f"no run {run_id!r} in the store")
        return Run.from_json(cast(bytes, text).decode())

    def has_run(self, run_id: str) -> bool:
        """Whether there is such a run or, of Phase 0, such a collection."""
        return bool(self.redis.exists(run_key(run_id, "settings"), run_key(run_id, "metadata")))

    def run_ids(self) -> list[str]:
        found = self.redis.scan_iter(match=run_key("*", "settings"), count=1000)
        return sorted(key.decode().split(":")[2] for key in found)

    def put_metadata(self, run_id: str, name: str, value: str) -> None:
        self.redis.hset(run_key(run_id, "metadata"), name, value)

    def metadata(self, run_id: str, name: str) -> str | None:
        return text_of(self.redis.hget(run_key(run_id, "metadata"), name))

    def metadata_values(self, run_id: str, names: Sequence[str]) -> dict[str, str | None]:
        values = cast("list[bytes | None]", self.redis.hmget(run_key(run_id, "metadata"), list(names)))
        return {name: text_of(value) for name, value in zip(names, values, strict=True)}

    def welcome(self, run_id: str, code: str, model: str) -> None:
        """Say which workers may work for a run: those of this code, for this model.  A cancelled one goes on."""
        pipe = self.redis.pipeline()
        pipe.hset(run_key(run_id, "metadata"), mapping={CODE: code, MODEL: model})
        pipe.hdel(run_key(run_id, "metadata"), CANCELLED)
        pipe.execute()

    def stage_limit(self, run_id: str) -> float | None:
        """How long a stage of the run may take, in seconds; None where nobody has said."""
        text = self.metadata(run_id, LIMIT)
        return None if text is None else float(text)

    def put_examples(self, run_id: str, examples: Mapping[str, Sequence[Mapping[str, str]]]) -> None:
        self.redis.set(run_key(run_id, "examples"), json.dumps(examples))

    def examples(self, run_id: str) -> dict[str, list[dict[str, str]]]:
        text = self.redis.get(run_key(run_id, "examples"))
        if text is None:
            raise KeyError(f"no examples of run {run_id!r} in the store")
        return examples_from(cast(bytes, text))


# Every stage asks for its run, and the many stages of a run for the same: checking its fields takes longest.
@lru_cache(maxsize=8)
def run_from(text: bytes) -> Run:
    """A run as it lies in the store."""
    return Run.from_json(text.decode())


# Every evaluation asks for its questions, and the same strings again are known by their hashes to all that caches them.
@lru_cache(maxsize=4)
def examples_from(text: bytes) -> dict[str, list[dict[str, str]]]:
    """The sets of examples as they lie in the store; to be read only."""
    return cast("dict[str, list[dict[str, str]]]", json.loads(text))


@dataclass(frozen=True)
class StageContext:
    """Where a stage finds itself: its run and plan, the plan's latest attempt, and whether it has been done."""

    run: Run
    plan: Plan
    attempt: int
    done: bool
    cancelled: bool


class PlanRecords(RunRecords):
    """See `tasks.store.store.Store`."""

    def put_plan(self, run_id: str, plan: Plan) -> None:
        """Record a plan.  A different plan under the same name is a plan of other answers: it is dropped whole."""
        key, text = plan_key(run_id, plan.name), plan.to_json()
        if text_of(self.redis.hget(key, "plan")) not in (None, text):
            self.redis.delete(key)
        self.redis.hset(key, "plan", text)

    def plan(self, run_id: str, name: str) -> Plan:
        """Raises: KeyError when there is no such plan."""
        text = text_of(self.redis.hget(plan_key(run_id, name), "plan"))
        if text is None:
            raise KeyError(f"no plan {name!r} of run {run_id!r} in the store")
        return Plan.from_json(text)

    def plan_names(self, run_id: str) -> list[str]:
        """The names of all plans of a run that are on record."""
        prefix = plan_key(run_id, "")
        return sorted(key.decode().removeprefix(prefix) for key in self.redis.scan_iter(match=prefix + "*", count=1000))

    def forget_plans(self, run_id: str, names: Iterable[str]) -> None:
        """Drop plans with all that their stages left: of a generation that is in the output folder, whole."""
        self.redis.unlink(*(plan_key(run_id, name) for name in names))

    def next_attempt(self, run_id: str, name: str) -> int:
        """The number of a new attempt at a plan; tasks of an earlier one end without work from here on."""
        return self.redis.hincrby(plan_key(run_id, name), "attempt", 1)

    def attempt(self, run_id: str, name: str) -> int:
        """The number of the latest attempt, 0 before the first."""
        return int(cast("bytes | None", self.redis.hget(plan_key(run_id, name), "attempt")) or 0)

    def stage_context(self, run_id: str, name: str, stage: str) -> StageContext:
        """All that a stage must know before it begins, in one trip.  Raises: KeyError for an unknown run or plan."""
        pipe = self.redis.pipeline(transaction=False)
        pipe.get(run_key(run_id, "settings"))
        pipe.hmget(plan_key(run_id, name), ["plan", "attempt", stage])
        pipe.hget(run_key(run_id, "metadata"), CANCELLED)
        settings, (plan, attempt, record), cancelled = pipe.execute()
        if settings is None or plan is None:
            raise KeyError(f"no plan {name!r} of a run {run_id!r} in the store")
        return StageContext(
            run_from(settings), _plan_from(plan), int(attempt or 0), record is not None, bool(cancelled)
        )

    def put_stage(self, run_id: str, name: str, stage: str, outcome: Mapping[str, Any]) -> None:
        """Record what a stage of a candidate came to; the first record stands."""
        self.redis.hsetnx(plan_key(run_id, name), stage, json.dumps(outcome))

    def stage(self, run_id: str, name: str, stage: str) -> dict[str, Any] | None:
        text = self.redis.hget(plan_key(run_id, name), stage)
        return None if text is None else cast("dict[str, Any]", json.loads(cast(bytes, text)))

    def stages(self, run_id: str, name: str, cached: Iterable[str] = ()) -> dict[str, dict[str, Any]]:
        """The stages recorded so far, without those that the caller has (`cached`)."""
        key = plan_key(run_id, name)
        fields = {f.decode() for f in cast("list[bytes]", self.redis.hkeys(key))} - {"plan", "attempt"} - set(cached)
        names = sorted(fields)
        values = cast("list[bytes | None]", self.redis.hmget(key, names)) if names else []
        return {n: json.loads(v) for n, v in zip(names, values, strict=True) if v is not None}

    def put_failure(self, run_id: str, name: str, index: str, failure: Mapping[str, Any]) -> None:
        self.redis.hset(plan_key(run_id, name), f"{index}:failed", json.dumps(failure))

    def count_failure(self, run_id: str, what: str, times: int) -> int:
        """Count that a task has failed `times` more; returns how often in all."""
        return self.redis.hincrby(run_key(run_id, "tries"), what, times)

    def forget_failure(self, run_id: str, name: str, index: str) -> bool:
        """Returns whether it was there: of several who forget it at once, one is told so."""
        return bool(self.redis.hdel(plan_key(run_id, name), f"{index}:failed"))

    def forget_failures(self, run_id: str, name: str) -> None:
        key = plan_key(run_id, name)
        if failed := [f for f in cast("list[bytes]", self.redis.hkeys(key)) if f.endswith(b":failed")]:
            self.redis.hdel(key, *failed)

    def notify(self, run_id: str) -> None:
        """Tell whoever waits for the run to look at the record now."""
        self.redis.lpush(run_key(run_id, "notify"), "1")
        self.redis.expire(run_key(run_id, "notify"), 3600)

    def wait(self, run_id: str, seconds: float) -> None:
        """Sleep until `notify`, but no longer than `seconds`."""
        self.redis.blpop([run_key(run_id, "notify")], timeout=seconds)
        self.redis.delete(run_key(run_id, "notify"))


# As of its run, every stage asks for its plan.
@lru_cache(maxsize=8)
def _plan_from(text: bytes) -> Plan:
    return Plan.from_json(text.decode())


class ResultCache(RunRecords):
    """See `tasks.store.store.Store`."""

    def shared(self, run_id: str, keys: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Which of these content-addressed results are there."""
        values = cast("list[bytes | None]", self.redis.mget([PREFIX + k for k in keys])) if keys else []
        found = {k: json.loads(v) for k, v in zip(keys, values, strict=True) if v is not None}
        if found:
            self.redis.sadd(run_key(run_id, "shared"), *(PREFIX + k for k in found))
        return found

    def put_shared(
        self, run_id: str, key: str, value: Mapping[str, Any], usage: Mapping[str, float] | None = None
    ) -> None:
        """Keep a result under its content key; the first one stands, so that all readers see one and the same.

        `usage` is counted for the run in the same trip: hundreds of answers come in a second.
        """
        pipe = self.redis.pipeline()
        pipe.sadd(run_key(run_id, "shared"), PREFIX + key)
        pipe.set(PREFIX + key, json.dumps(value), nx=True)
        for name, count in (usage or {}).items():
            pipe.hincrbyfloat(run_key(run_id, "usage"), name, count)
        pipe.execute()

    def put_clustering(self, run_id: str, clustering: str, labels: bytes, descriptions: str) -> None:
        key = f"{PREFIX}clustering:{clustering}"
        self.redis.sadd(run_key(run_id, "shared"), key)
        self.redis.hset(key, mapping={"labels": labels, "descriptions": descriptions})

    def labels(self, clustering: str) -> bytes:
        """The packed labels of a clustering.  Raises: KeyError."""
        found = self.redis.hget(f"{PREFIX}clustering:{clustering}", "labels")
        if found is None:
            raise KeyError(f"no clustering {clustering!r} in the store")
        return cast(bytes, found)

    def has_clustering(self, clustering: str) -> bool:
        return bool(self.redis.exists(f"{PREFIX}clustering:{clustering}"))

    def descriptions(self, run_id: str) -> list[dict[str, Any]]:
        """What the run's clusters hold: the user's own descriptions, or those of its clustering.  Raises: KeyError."""
        own, clustering = self.metadata(run_id, "descriptions"), self.metadata(run_id, "clustering")
        text = own or text_of(self.redis.hget(f"{PREFIX}clustering:{clustering}", "descriptions"))
        if text is None:
            raise KeyError(f"no clustering of run {run_id!r} in the store")
        return cast("list[dict[str, Any]]", json.loads(text))


class Store(PlanRecords, ResultCache):
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

    def prompts(self, run_id: str, cached: Iterable[str] = ()) -> dict[str, str]:
        key = run_key(run_id, "prompts")
        names = sorted({f.decode() for f in cast("list[bytes]", self.redis.hkeys(key))} - set(cached))
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

    def add_providers(self, run_id: str, role: str, names: Iterable[str]) -> None:
        """Note who answered for the run in the role of "reflector" or "judge" (see tasks/openai/provider.py)."""
        if members := [json.dumps([role, name]) for name in names]:
            self.redis.sadd(run_key(run_id, "answerers"), *members)

    def providers(self, run_id: str, role: str) -> list[str]:
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
