"""The store: the one module that knows how Whetstone's keys are named and what lies under them.

    whetstone:run:<id>:settings            the Run, as JSON
    whetstone:run:<id>:facts               hash: clustering, and whatever else is learnt once a run
    whetstone:run:<id>:examples            {"training": [...], "validation": [...]}
    whetstone:run:<id>:plan:<name>         hash: "plan", "dispatch", and one field a finished stage
    whetstone:run:<id>:prompts             hash: file name -> text of one call
    whetstone:run:<id>:tries               hash: what was tried -> how often that failed, or its worker died
    whetstone:run:<id>:usage               hash: counters of calls, tokens and money
    whetstone:run:<id>:answerers           set: [role, name], who answered for the reflector and the judge
    whetstone:run:<id>:calls               hash: calls begun and not settled, and what each may cost (tasks/ledger.py)
    whetstone:run:<id>:files               hash: file name -> bytes that a worker made for the output folder
    whetstone:run:<id>:wake                list: something happened, look at the record
    whetstone:run:<id>:shared              set: keys below that this run has read or written
    whetstone:answer:<hash>                an answer, under the hash of all that determines it
    whetstone:verdict:<hash>               a verdict, likewise
    whetstone:clustering:<hash>            hash: labels (packed), descriptions
    whetstone:claim:<name>                 who is at work on this (see tasks/once.py)

The truth of a generation in flight is its plan's hash; Celery's messages carry only what finds a place in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import redis
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

from tasks.ledger import Ledger
from tasks.plan import Plan
from tasks.run import Run

PREFIX = "whetstone:"
STANDING = "standing"  # the fact in which the driver tells where its run stands
CODE, MODEL, CANCELLED = "code", "model", "cancelled"  # facts of a run by which a worker knows whether to work for it
LIMIT = "stage_limit_s"  # the fact that holds the hard time limit of a stage, in seconds


def connect(url: str) -> redis.Redis:
    """A client that outlives a restart of the server: it tries again for about a quarter of a minute, then raises."""
    return redis.Redis.from_url(
        url,
        retry=Retry(ExponentialBackoff(cap=1.0, base=0.05), retries=20),
        retry_on_error=[redis.ConnectionError, redis.TimeoutError, redis.exceptions.BusyLoadingError],
        health_check_interval=15,
        socket_connect_timeout=5,
    )


@dataclass(frozen=True)
class Situation:
    """Where a stage finds itself: its run and plan, the plan's latest dispatch, and whether it has been done."""

    run: Run
    plan: Plan
    dispatch: int
    done: bool
    cancelled: bool


class Store:
    """Typed access to one Redis or Valkey.  Every method is safe to call twice with the same arguments."""

    def __init__(self, client: redis.Redis) -> None:
        self.redis = client

    # -- runs -------------------------------------------------------------------------------------------------------

    def put_run(self, run: Run) -> None:
        self.redis.set(_run(run.id, "settings"), run.to_json())

    def run(self, run_id: str) -> Run:
        """Raises: KeyError when the store does not know the run."""
        text = self.redis.get(_run(run_id, "settings"))
        if text is None:
            raise KeyError(f"no run {run_id!r} in the store")
        return Run.from_json(cast(bytes, text).decode())

    def knows(self, run_id: str) -> bool:
        """Whether there is such a run or, of Phase 0, such a collection."""
        return bool(self.redis.exists(_run(run_id, "settings"), _run(run_id, "facts")))

    def run_ids(self) -> list[str]:
        found = self.redis.scan_iter(match=_run("*", "settings"), count=1000)
        return sorted(key.decode().split(":")[2] for key in found)

    def put_fact(self, run_id: str, name: str, value: str) -> None:
        self.redis.hset(_run(run_id, "facts"), name, value)

    def fact(self, run_id: str, name: str) -> str | None:
        return _text(self.redis.hget(_run(run_id, "facts"), name))

    def facts(self, run_id: str, names: Sequence[str]) -> dict[str, str | None]:
        values = cast("list[bytes | None]", self.redis.hmget(_run(run_id, "facts"), list(names)))
        return {name: _text(value) for name, value in zip(names, values, strict=True)}

    def welcome(self, run_id: str, code: str, model: str) -> None:
        """Say which workers may work for a run: those of this code, for this model.  A cancelled one goes on."""
        pipe = self.redis.pipeline()
        pipe.hset(_run(run_id, "facts"), mapping={CODE: code, MODEL: model})
        pipe.hdel(_run(run_id, "facts"), CANCELLED)
        pipe.execute()

    def stage_limit(self, run_id: str) -> float | None:
        """How long a stage of the run may take, in seconds; None where nobody has said."""
        text = self.fact(run_id, LIMIT)
        return None if text is None else float(text)

    def put_examples(self, run_id: str, examples: Mapping[str, Sequence[Mapping[str, str]]]) -> None:
        self.redis.set(_run(run_id, "examples"), json.dumps(examples))

    def examples(self, run_id: str) -> dict[str, list[dict[str, str]]]:
        text = self.redis.get(_run(run_id, "examples"))
        if text is None:
            raise KeyError(f"no examples of run {run_id!r} in the store")
        return cast("dict[str, list[dict[str, str]]]", json.loads(cast(bytes, text)))

    def delete_run(self, run_id: str) -> int:
        """Forget a run, and the shared results that no other run has used.  Returns the number of keys removed."""
        others = [_run(other, "shared") for other in self.run_ids() if other != run_id]
        mine = _run(run_id, "shared")
        shared = cast("set[bytes]", self.redis.sdiff([mine, *others]))
        keys = [*shared, *self.redis.scan_iter(match=_run(run_id, "*"), count=1000)]
        for start in range(0, len(keys), 500):
            self.redis.unlink(*keys[start : start + 500])
        return len(keys)

    # -- plans and their stages -------------------------------------------------------------------------------------

    def put_plan(self, run_id: str, plan: Plan) -> None:
        """Record a plan.  A different plan under the same name is a plan of other answers: it is dropped whole."""
        key, text = _plan(run_id, plan.name), plan.to_json()
        if _text(self.redis.hget(key, "plan")) not in (None, text):
            self.redis.delete(key)
        self.redis.hset(key, "plan", text)

    def plan(self, run_id: str, name: str) -> Plan:
        """Raises: KeyError when there is no such plan."""
        text = _text(self.redis.hget(_plan(run_id, name), "plan"))
        if text is None:
            raise KeyError(f"no plan {name!r} of run {run_id!r} in the store")
        return Plan.from_json(text)

    def plan_names(self, run_id: str) -> list[str]:
        """The names of all plans of a run that are on record."""
        prefix = _plan(run_id, "")
        return sorted(key.decode().removeprefix(prefix) for key in self.redis.scan_iter(match=prefix + "*", count=1000))

    def forget_plans(self, run_id: str, names: Iterable[str]) -> None:
        """Drop plans with all that their stages left: of a generation that is in the output folder, whole."""
        self.redis.unlink(*(_plan(run_id, name) for name in names))

    def next_dispatch(self, run_id: str, name: str) -> int:
        """The number of a new dispatch of a plan; tasks of an earlier one step aside from here on."""
        return self.redis.hincrby(_plan(run_id, name), "dispatch", 1)

    def dispatch(self, run_id: str, name: str) -> int:
        """The number of the latest dispatch, 0 before the first."""
        return int(cast("bytes | None", self.redis.hget(_plan(run_id, name), "dispatch")) or 0)

    def situation(self, run_id: str, name: str, stage: str) -> Situation:
        """All that a stage must know before it begins, in one trip.  Raises: KeyError for an unknown run or plan."""
        pipe = self.redis.pipeline(transaction=False)
        pipe.get(_run(run_id, "settings"))
        pipe.hmget(_plan(run_id, name), ["plan", "dispatch", stage])
        pipe.hget(_run(run_id, "facts"), CANCELLED)
        settings, (plan, dispatch, record), cancelled = pipe.execute()
        if settings is None or plan is None:
            raise KeyError(f"no plan {name!r} of a run {run_id!r} in the store")
        return Situation(_run_from(settings), _plan_from(plan), int(dispatch or 0), record is not None, bool(cancelled))

    def put_stage(self, run_id: str, name: str, stage: str, outcome: Mapping[str, Any]) -> None:
        """Record what a stage of a member came to; the first record stands."""
        self.redis.hsetnx(_plan(run_id, name), stage, json.dumps(outcome))

    def stage(self, run_id: str, name: str, stage: str) -> dict[str, Any] | None:
        text = self.redis.hget(_plan(run_id, name), stage)
        return None if text is None else cast("dict[str, Any]", json.loads(cast(bytes, text)))

    def stages(self, run_id: str, name: str, known: Iterable[str] = ()) -> dict[str, dict[str, Any]]:
        """The stages recorded so far, without those already known."""
        key = _plan(run_id, name)
        fields = {f.decode() for f in cast("list[bytes]", self.redis.hkeys(key))} - {"plan", "dispatch"} - set(known)
        names = sorted(fields)
        values = cast("list[bytes | None]", self.redis.hmget(key, names)) if names else []
        return {n: json.loads(v) for n, v in zip(names, values, strict=True) if v is not None}

    def put_failure(self, run_id: str, name: str, index: str, failure: Mapping[str, Any]) -> None:
        self.redis.hset(_plan(run_id, name), f"{index}:failed", json.dumps(failure))

    def count_failure(self, run_id: str, what: str, times: int) -> int:
        """Count that a task has failed `times` more; returns how often in all."""
        return self.redis.hincrby(_run(run_id, "tries"), what, times)

    def forget_failure(self, run_id: str, name: str, index: str) -> bool:
        """Returns whether it was there: of several who forget it at once, one is told so."""
        return bool(self.redis.hdel(_plan(run_id, name), f"{index}:failed"))

    def forget_failures(self, run_id: str, name: str) -> None:
        key = _plan(run_id, name)
        if failed := [f for f in cast("list[bytes]", self.redis.hkeys(key)) if f.endswith(b":failed")]:
            self.redis.hdel(key, *failed)

    def wake(self, run_id: str) -> None:
        """Tell whoever waits for the run to look at the record now."""
        self.redis.lpush(_run(run_id, "wake"), "1")
        self.redis.expire(_run(run_id, "wake"), 3600)

    def wait(self, run_id: str, seconds: float) -> None:
        """Sleep until `wake`, but no longer than `seconds`."""
        self.redis.blpop([_run(run_id, "wake")], timeout=seconds)
        self.redis.delete(_run(run_id, "wake"))

    # -- results that runs share -------------------------------------------------------------------------------------

    def shared(self, run_id: str, keys: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Which of these content-addressed results are there."""
        values = cast("list[bytes | None]", self.redis.mget([PREFIX + k for k in keys])) if keys else []
        found = {k: json.loads(v) for k, v in zip(keys, values, strict=True) if v is not None}
        if found:
            self.redis.sadd(_run(run_id, "shared"), *(PREFIX + k for k in found))
        return found

    def put_shared(
        self, run_id: str, key: str, value: Mapping[str, Any], usage: Mapping[str, float] | None = None
    ) -> None:
        """Keep a result under its content key; the first one stands, so that all readers see one and the same.

        `usage` is counted for the run in the same trip: hundreds of answers come in a second.
        """
        pipe = self.redis.pipeline()
        pipe.sadd(_run(run_id, "shared"), PREFIX + key)
        pipe.set(PREFIX + key, json.dumps(value), nx=True)
        for name, count in (usage or {}).items():
            pipe.hincrbyfloat(_run(run_id, "usage"), name, count)
        pipe.execute()

    def put_clustering(self, run_id: str, clustering: str, labels: bytes, descriptions: str) -> None:
        key = f"{PREFIX}clustering:{clustering}"
        self.redis.sadd(_run(run_id, "shared"), key)
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
        own, clustering = self.fact(run_id, "descriptions"), self.fact(run_id, "clustering")
        text = own or _text(self.redis.hget(f"{PREFIX}clustering:{clustering}", "descriptions"))
        if text is None:
            raise KeyError(f"no clustering of run {run_id!r} in the store")
        return cast("list[dict[str, Any]]", json.loads(text))

    # -- prompts, usage, files ---------------------------------------------------------------------------------------

    def put_prompt(self, run_id: str, name: str, text: str) -> None:
        self.redis.hset(_run(run_id, "prompts"), name, text)

    def prompt_names(self, run_id: str) -> list[str]:
        return sorted(name.decode() for name in cast("list[bytes]", self.redis.hkeys(_run(run_id, "prompts"))))

    def prompts(self, run_id: str, known: Iterable[str] = ()) -> dict[str, str]:
        key = _run(run_id, "prompts")
        names = sorted({f.decode() for f in cast("list[bytes]", self.redis.hkeys(key))} - set(known))
        values = cast("list[bytes | None]", self.redis.hmget(key, names)) if names else []
        return {n: v.decode() for n, v in zip(names, values, strict=True) if v is not None}

    def add_usage(self, run_id: str, counts: Mapping[str, float]) -> None:
        pipe = self.redis.pipeline()
        for name, value in counts.items():
            pipe.hincrbyfloat(_run(run_id, "usage"), name, value)
        pipe.execute()

    def usage(self, run_id: str) -> dict[str, float]:
        found = cast("dict[bytes, bytes]", self.redis.hgetall(_run(run_id, "usage")))
        return {k.decode(): float(v) for k, v in found.items()}

    def add_answerers(self, run_id: str, role: str, names: Iterable[str]) -> None:
        """Note who answered for the run in the role of "reflector" or "judge" (see tasks/openai/answerer.py)."""
        if members := [json.dumps([role, name]) for name in names]:
            self.redis.sadd(_run(run_id, "answerers"), *members)

    def answerers(self, run_id: str, role: str) -> list[str]:
        """Who has answered for the run in this role, in the order of the names."""
        found = (json.loads(m) for m in cast("set[bytes]", self.redis.smembers(_run(run_id, "answerers"))))
        return sorted(name for of, name in found if of == role)

    def ledger(self, run_id: str) -> Ledger:
        """The run's money: its usage and its calls under way."""
        return Ledger(self.redis, _run(run_id, "usage"), _run(run_id, "calls"))

    def put_file(self, run_id: str, name: str, data: bytes) -> None:
        """A file that a worker made for the run's output folder."""
        self.redis.hset(_run(run_id, "files"), name, data)

    def file(self, run_id: str, name: str) -> bytes | None:
        return cast("bytes | None", self.redis.hget(_run(run_id, "files"), name))


# Every stage asks for both, and a run's many stages for the same: checking its fields takes longer than all the rest.
@lru_cache(maxsize=8)
def _run_from(text: bytes) -> Run:
    return Run.from_json(text.decode())


@lru_cache(maxsize=8)
def _plan_from(text: bytes) -> Plan:
    return Plan.from_json(text.decode())


def _run(run_id: str, what: str) -> str:
    return f"{PREFIX}run:{run_id}:{what}"


def _plan(run_id: str, name: str) -> str:
    return _run(run_id, f"plan:{name}")


def _text(value: Any) -> str | None:
    return None if value is None else cast(bytes, value).decode()
