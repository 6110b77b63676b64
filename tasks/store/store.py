"""What all processes of the farm share about runs, in one Redis or Valkey; its keys are in tasks/store/keys.py."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, cast

import redis

from tasks.failure import Failure
from tasks.models import Example, Run
from tasks.plan import Plan
from tasks.store import keys
from tasks.store.address import store_url
from tasks.store.client import connect
from tasks.store.clusterings import Clusterings
from tasks.store.fence import Fence, Part
from tasks.store.keys import failure_field, plan_key, result_key, run_key
from tasks.store.ledger import Ledger
from tasks.store.results import KEPT_S, SharedResults
from tasks.store.retention import Retention
from tasks.store.waiting import NO_WAITING, Waiting, waiting_of
from tasks.validation import parse_json

NOTIFICATIONS_KEPT_S = 3600
DELETED_AT_ONCE = 500  # keys in one command
# A plan that is gone, or was deleted and made again since the attempt began, gets no record.
_PUT_STAGE = f"""
if redis.call("HEXISTS", KEYS[1], "{keys.PLAN}") == 0 then return 0 end
local outdated = redis.call("HGET", KEYS[1], ARGV[1])
if outdated and tonumber(ARGV[2]) <= tonumber(outdated) then return 0 end
return redis.call("HSETNX", KEYS[1], ARGV[3], ARGV[4])
"""
# KEYS: the run's fence and the record.
_NEXT_ATTEMPT = f"""
local attempt = redis.call("HINCRBY", KEYS[1], "{keys.SEQUENCE}", 1)
redis.call("HSET", KEYS[2], "{keys.ATTEMPT}", attempt)
return attempt
"""
# KEYS: the run's counters.  ARGV: names and values.
_RESTORE_USAGE = """
if redis.call("EXISTS", KEYS[1]) == 0 then redis.call("HSET", KEYS[1], unpack(ARGV)) end
"""


@dataclass(frozen=True)
class StageContext:
    """What a stage must know before it begins: its run and plan, the latest attempt, and what is done.

    `owner` is the number of the run's latest owner: attempts with lower numbers are of earlier owners.
    """

    run: Run
    plan: Plan
    attempt: int
    done: bool
    cancelled: bool
    owner: int = 0


@dataclass(frozen=True)
class JobContext:
    """What a job must know before it begins: its spec as JSON, the latest attempt, and whether its result is there."""

    spec: bytes
    attempt: int
    done: bool
    cancelled: bool
    owner: int = 0


class Store:
    """Typed access to one Redis or Valkey.  Every method is safe to call twice with the same arguments.

    All raise redis.RedisError when the server cannot be reached for as long as `client` retries.  A store of the owner
    of a run (`of_owner`) raises RunTaken where it would write after another process has taken the run over.
    """

    def __init__(self, client: redis.Redis, number: int | None = None) -> None:
        self.redis = client
        self.fence = Fence(client, number)
        self._next_attempt, self._put_stage = self.fence.script(_NEXT_ATTEMPT), client.register_script(_PUT_STAGE)
        self._restore_usage = self.fence.script(_RESTORE_USAGE)
        self.clusterings = Clusterings(client, self.fence)

    def of_owner(self, number: int) -> Store:
        """The same store, for the owner of a run that has this number (tasks/store/run_lease.py)."""
        return Store(self.redis, number)

    def _write(self, run_id: str, *commands: Sequence[Part]) -> list[Any]:
        return self.fence.write(run_id, *commands)

    # Runs: what each was started with, and what was learnt of it.

    def put_run(self, run: Run) -> None:
        self._write(run.id, ("SADD", keys.RUNS, run.id), ("SET", run_key(run.id, keys.SETTINGS), run.to_json()))

    def run(self, run_id: str) -> Run:
        """Raises: KeyError when there is no such run, InvalidData."""
        text = self.redis.get(run_key(run_id, keys.SETTINGS))
        if text is None:
            raise KeyError(f"no run {run_id!r} in the store")
        return _read_run(cast(bytes, text))

    def has_run(self, run_id: str) -> bool:
        """Whether there is such a run, of any kind."""
        return bool(self.redis.exists(run_key(run_id, keys.SETTINGS), run_key(run_id, keys.METADATA)))

    def run_ids(self) -> list[str]:
        """All runs, of every kind."""
        return sorted(run.decode() for run in cast("set[bytes]", self.redis.smembers(keys.RUNS)))

    def delete_run(self, run_id: str) -> int:
        """Delete a run, and the shared results that no other run has used.  Returns the number of keys removed."""
        self.release_shared(run_id)
        self.release_clusterings(run_id)
        others = [run_key(other, keys.SHARED) for other in self._other_runs(run_id)]
        shared = cast("set[bytes]", self.redis.sdiff([run_key(run_id, keys.SHARED), *others]))
        last = [run_key(run_id, keys.FENCE).encode(), run_key(run_id, keys.LEASE).encode()]
        own = cast("Iterator[bytes]", self.redis.scan_iter(match=run_key(run_id, "*"), count=1000))
        found = [*shared, *(key for key in own if key not in last)]
        for start in range(0, len(found), DELETED_AT_ONCE):
            self._write(run_id, ("UNLINK", *found[start : start + DELETED_AT_ONCE]))
        self._write(run_id, ("SREM", keys.RUNS, run_id), ("UNLINK", *last))
        return len(found)

    def put_metadata(self, run_id: str, name: str, value: str) -> None:
        self._write(run_id, ("HSET", run_key(run_id, keys.METADATA), name, value))

    def metadata(self, run_id: str, name: str) -> str | None:
        return _text(self.redis.hget(run_key(run_id, keys.METADATA), name))

    def metadata_values(self, run_id: str, names: Sequence[str]) -> dict[str, str | None]:
        values = cast("list[bytes | None]", self.redis.hmget(run_key(run_id, keys.METADATA), list(names)))
        return {name: _text(value) for name, value in zip(names, values, strict=True)}

    def set_requirements(self, run_id: str, code: str, model: str) -> None:
        """Which workers may work for a run: those of this code, for this model.  A cancelled run goes on."""
        metadata = run_key(run_id, keys.METADATA)
        self._write(
            run_id,
            ("SADD", keys.RUNS, run_id),
            ("HSET", metadata, keys.CODE, code, keys.MODEL, model),
            ("HDEL", metadata, keys.CANCELLED),
        )

    def stage_limit(self, run_id: str) -> float | None:
        """How long a stage of the run may take, in seconds; None where no limit was set."""
        text = self.metadata(run_id, keys.LIMIT)
        return None if text is None else float(text)

    def put_examples(self, run_id: str, examples: Mapping[str, Sequence[Example]]) -> None:
        sets = {name: [dataclasses.asdict(example) for example in found] for name, found in examples.items()}
        self._write(run_id, ("SET", run_key(run_id, keys.EXAMPLES), json.dumps(sets)))

    def examples(self, run_id: str) -> Mapping[str, tuple[Example, ...]]:
        """The sets of examples by name.  Raises: KeyError, InvalidData."""
        text = self.redis.get(run_key(run_id, keys.EXAMPLES))
        if text is None:
            raise KeyError(f"no examples of run {run_id!r} in the store")
        return _read_examples(cast(bytes, text))

    # Plans: their attempts, the records of their stages, and what failed.

    def put_plan(self, run_id: str, plan: Plan) -> None:
        """Record a plan.  A different plan of the same name has other results: its records are deleted.

        What is new takes no record of an attempt that began before.
        """
        key, text = plan_key(run_id, plan.name), plan.to_json()
        known = _text(self.redis.hget(key, keys.PLAN))
        if known not in (None, text):
            self.forget_stages(run_id, [plan.name])
        begun = self.redis.hget(run_key(run_id, keys.FENCE), keys.SEQUENCE) if known is None else None
        outdated = [("HSET", key, keys.OUTDATED, cast(bytes, begun))] if begun is not None else []
        self._write(run_id, ("HSET", key, keys.PLAN, text), *outdated)

    def plan(self, run_id: str, name: str) -> Plan:
        """Raises: KeyError when there is no such plan, InvalidData."""
        text = self.redis.hget(plan_key(run_id, name), keys.PLAN)
        if text is None:
            raise KeyError(f"no plan {name!r} of run {run_id!r} in the store")
        return _read_plan(cast(bytes, text))

    def forget_plans(self, run_id: str, names: Iterable[str]) -> None:
        """Delete plans with the records of their stages: of a generation that is in the output folder."""
        forgotten = set(names)
        if not forgotten:
            return
        self._write(run_id, ("UNLINK", *(plan_key(run_id, name) for name in forgotten)))
        for failure in self.failures(run_id):
            if failure.record in forgotten:
                self.forget_failure(failure)

    def next_attempt(self, run_id: str, name: str) -> int:
        """The number of a new attempt at a plan or the jobs; tasks of an earlier one end without work from here on."""
        names = [run_key(run_id, keys.FENCE), plan_key(run_id, name)]
        return cast(int, self._next_attempt(run_id, names, []))

    def owner_number(self, run_id: str) -> int:
        """The number of the run's latest owner, 0 before the first."""
        return int(cast("bytes | None", self.redis.hget(run_key(run_id, keys.FENCE), keys.NUMBER)) or 0)

    def attempt(self, run_id: str, name: str) -> int:
        """The number of the latest attempt, 0 before the first."""
        return int(cast("bytes | None", self.redis.hget(plan_key(run_id, name), keys.ATTEMPT)) or 0)

    def stage_context(self, run_id: str, name: str, stage: str) -> StageContext:
        """All that a stage must know before it begins, in one trip.  Raises: KeyError for an unknown run or plan."""
        pipe = self.redis.pipeline(transaction=False)
        pipe.get(run_key(run_id, keys.SETTINGS))
        pipe.hmget(plan_key(run_id, name), [keys.PLAN, keys.ATTEMPT, stage])
        pipe.hget(run_key(run_id, keys.METADATA), keys.CANCELLED)
        pipe.hget(run_key(run_id, keys.FENCE), keys.NUMBER)
        settings, (plan, attempt, record), cancelled, owner = pipe.execute()
        if settings is None or plan is None:
            raise KeyError(f"no plan {name!r} of a run {run_id!r} in the store")
        return StageContext(
            _read_run(settings),
            _read_plan(plan),
            int(attempt or 0),
            record is not None,
            bool(cancelled),
            int(owner or 0),
        )

    def put_stage(self, run_id: str, name: str, stage: str, outcome: Mapping[str, Any], attempt: int) -> None:
        """Record the outcome of a stage of a candidate; the first record stands.

        Nothing is recorded by an attempt whose records were deleted (`forget_stages`), nor of a plan that is gone.  A
        task of an earlier owner that is at work may end: the plan says what its outcome is of.
        """
        text = json.dumps(outcome)
        self._put_stage([plan_key(run_id, name)], [keys.OUTDATED, attempt, stage, text])

    def forget_stages(self, run_id: str, names: Iterable[str]) -> None:
        """Delete the records of the stages of plans, also those that tasks of earlier attempts are about to write."""
        for name in names:
            if attempt := self.attempt(run_id, name):
                self._write(run_id, ("HSET", plan_key(run_id, name), keys.OUTDATED, attempt))
            if stages := list(self.stages(run_id, name)):
                self._write(run_id, ("HDEL", plan_key(run_id, name), *stages))

    def stage(self, run_id: str, name: str, stage: str) -> dict[str, Any] | None:
        text = self.redis.hget(plan_key(run_id, name), stage)
        return None if text is None else cast("dict[str, Any]", json.loads(cast(bytes, text)))

    def stages(self, run_id: str, name: str, cached: Iterable[str] = ()) -> dict[str, dict[str, Any]]:
        """The records of stages by field, without those that the caller has (`cached`)."""
        found = self._hash_without(plan_key(run_id, name), {keys.PLAN, keys.ATTEMPT, keys.OUTDATED, *cached})
        return {field: json.loads(value) for field, value in found.items()}

    # What is outside a plan: jobs, each of which finds its arguments under its content key.

    def put_job(self, run_id: str, key: str, spec: str) -> None:
        """Keep the spec of a job, as JSON."""
        self._write(run_id, ("HSET", plan_key(run_id, keys.JOBS), key, spec))

    def job_spec(self, run_id: str, key: str) -> str | None:
        return _text(self.redis.hget(plan_key(run_id, keys.JOBS), key))

    def job_context(self, run_id: str, key: str) -> JobContext:
        """All that a job must know before it begins, in one trip.  Raises: KeyError for an unknown run or job."""
        pipe = self.redis.pipeline(transaction=False)
        pipe.hmget(plan_key(run_id, keys.JOBS), [keys.ATTEMPT, key])
        pipe.exists(result_key(key))
        pipe.hget(run_key(run_id, keys.METADATA), keys.CANCELLED)
        pipe.hget(run_key(run_id, keys.FENCE), keys.NUMBER)
        (attempt, spec), done, cancelled, owner = pipe.execute()
        if spec is None:
            raise KeyError(f"no job {key!r} of a run {run_id!r} in the store")
        return JobContext(spec, int(attempt or 0), bool(done), bool(cancelled), int(owner or 0))

    # What failed, in plans and jobs.

    def begin_attempt(self, run_id: str, record: str, keep: Callable[[list[Failure]], list[Failure]]) -> int:
        """The number of a new attempt at a plan or the jobs, whose failures are forgotten but for those of `keep`.

        `keep` is called with the failures of the attempt before, and returns those that stand.
        """
        failures, before = self.failures(run_id, record), self.attempt(run_id, record)
        attempt = self.next_attempt(run_id, record)  # more than one later, where its command was sent twice
        latest = [failure for failure in failures if failure.attempt == before]
        standing = [dataclasses.replace(failure, attempt=attempt) for failure in keep(latest)]
        key = run_key(run_id, keys.FAILURES)
        self._write(
            run_id,
            *(("HDEL", key, failure_field(record, failure.name)) for failure in failures),
            *(("HSET", key, failure_field(record, failure.name), failure.to_json()) for failure in standing),
        )
        return attempt

    def put_failure(self, failure: Failure) -> None:
        field = failure_field(failure.record, failure.name)
        self.redis.hset(run_key(failure.run, keys.FAILURES), field, failure.to_json())

    def failures(self, run_id: str, record: str | None = None) -> list[Failure]:
        """The failures of one record, or of all, oldest first.  Some may be of an earlier attempt."""
        texts = cast("list[bytes]", self.redis.hvals(run_key(run_id, keys.FAILURES)))
        found = [Failure.from_json(text) for text in texts]
        return sorted((f for f in found if record in (None, f.record)), key=lambda failure: failure.at)

    def forget_failure(self, failure: Failure) -> bool:
        """Returns whether it was there: of several processes that forget it at the same time, one gets True."""
        field = failure_field(failure.record, failure.name)
        return bool(self._write(failure.run, ("HDEL", run_key(failure.run, keys.FAILURES), field))[0])

    def failure_count(self, run_id: str, what: str) -> int:
        """How often a task or a call has failed so far."""
        return int(cast("bytes | None", self.redis.hget(run_key(run_id, "tries"), what)) or 0)

    def count_failure(self, run_id: str, what: str, times: int) -> int:
        """Count that a task has failed `times` more; returns how often in all."""
        return self.redis.hincrby(run_key(run_id, keys.TRIES), what, times)

    def notify(self, run_id: str) -> None:
        """End the `wait` of the process that drives the run: a result or failure was recorded."""
        key = run_key(run_id, keys.NOTIFICATIONS)
        self.redis.lpush(key, "1")
        self.redis.expire(key, NOTIFICATIONS_KEPT_S)

    def wait(self, run_id: str, seconds: float) -> None:
        """Sleep until `notify`, but no longer than `seconds`."""
        key = run_key(run_id, keys.NOTIFICATIONS)
        self.redis.blpop([key], timeout=seconds)
        self._write(run_id, ("DEL", key))

    # Results that runs share: answers and verdicts (tasks/store/results.py).

    @cached_property
    def _results(self) -> SharedResults:
        return SharedResults(self.redis, self.fence)

    def shared(self, run_id: str, content_keys: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Those of the results that are in the store, by content key; they are held for the run from here on."""
        return self._results.take(run_id, content_keys)

    def put_shared(
        self, run_id: str, key: str, value: Mapping[str, Any], usage: Mapping[str, float] | None = None
    ) -> None:
        """Keep a result under its content key and hold it for the run; `usage` is counted in the same trip."""
        self._results.put(run_id, key, value, usage or {})

    def release_shared(self, run_id: str, kept_s: int = KEPT_S) -> None:
        """The run needs none of its results any more: those that no other run holds expire after `kept_s` seconds.

        Where the server is nearly full, those that expire first are removed at once.
        """
        self._results.release(run_id, self._other_runs(run_id), kept_s)
        self.retention.make_room()

    @cached_property
    def retention(self) -> Retention:
        return Retention(self.redis)

    def _other_runs(self, run_id: str) -> list[str]:
        return [other for other in self.run_ids() if other != run_id]

    def release_clusterings(self, run_id: str, kept_s: int = KEPT_S) -> None:
        """The run has ended: clusterings that no other run holds expire after `kept_s` seconds."""
        self.clusterings.release(run_id, self._other_runs(run_id), kept_s)

    # What a run leaves for its output folder: prompts, files, usage and money.

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

    def _hash_without(self, key: str, excluded: set[str]) -> dict[str, bytes]:
        """The fields of a hash but for these: what the caller has is not sent again."""
        names = sorted({name.decode() for name in cast("list[bytes]", self.redis.hkeys(key))} - excluded)
        values = cast("list[bytes | None]", self.redis.hmget(key, names)) if names else []
        return {name: value for name, value in zip(names, values, strict=True) if value is not None}


def open_store(redis_url: str, waiting: Waiting | None = None) -> Store:
    """The store of the farm at this address.

    While the server's memory is full, what waits for it removes results that no run holds, from this store: `waiting`
    may be that of several clients.  Raises: ValueError for an address that is none.
    """
    client = connect(store_url(redis_url), waiting)
    waiting_of(client).make_room = Retention(connect(store_url(redis_url), NO_WAITING)).make_room
    return Store(client)


def _text(value: Any) -> str | None:
    return None if value is None else cast(bytes, value).decode()


# Every stage reads its run and plan, and the many stages of a run the same ones: checking their fields takes longest.
@lru_cache(maxsize=8)
def _read_run(text: bytes) -> Run:
    return parse_json(Run, text)


@lru_cache(maxsize=8)
def _read_plan(text: bytes) -> Plan:
    return parse_json(Plan, text)


# Every evaluation reads its questions; with the same string objects, whatever caches by text compares them by identity.
@lru_cache(maxsize=4)
def _read_examples(text: bytes) -> Mapping[str, tuple[Example, ...]]:
    return parse_json(dict[str, tuple[Example, ...]], text)
