"""The work of runs in the store: plans and jobs, their attempts, the records of their stages, and what failed."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

from tasks.common.validation import parse_json
from tasks.plan import Plan
from tasks.records import Failure, JobSpec, Run
from tasks.store import keys
from tasks.store.client import Part, StoreAccess
from tasks.store.keys import failure_field, plan_key, result_key, run_key

# A plan that is gone, or was deleted and made again since the attempt began, gets no record.
_PUT_STAGE = f"""
if redis.call("HEXISTS", KEYS[1], "{keys.PLAN}") == 0 then return 0 end
local outdated = redis.call("HGET", KEYS[1], ARGV[1])
if outdated and tonumber(ARGV[2]) <= tonumber(outdated) then return 0 end
return redis.call("HSETNX", KEYS[1], ARGV[3], ARGV[4])
"""
# KEYS: where the run's attempts are numbered, and the record.
_NEXT_ATTEMPT = f"""
local attempt = redis.call("HINCRBY", KEYS[1], "{keys.SEQUENCE}", 1)
redis.call("HSET", KEYS[2], "{keys.ATTEMPT}", attempt)
return attempt
"""


@dataclass(frozen=True)
class WorkState:
    """What a task must know before it begins: the latest attempt at its record, what is done, and whether to go on."""

    attempt: int
    done: bool
    cancelled: bool


class PlanRecords(StoreAccess):
    """The records of the work of a run, by the name of a plan or the key of a job."""

    def put_plan(self, run_id: str, plan: Plan) -> None:
        """Record a plan, which takes no record of an attempt that began before; a different one has other records."""
        key, text = plan_key(run_id, plan.name), plan.to_json()
        known = cast("bytes | None", self.redis.hget(key, keys.PLAN))
        if known not in (None, text.encode()):
            self.forget_stages(run_id, [plan.name])
        begun = self.redis.hget(run_key(run_id, keys.FENCE), keys.SEQUENCE) if known is None else None
        outdated = [("HSET", key, keys.OUTDATED, cast(bytes, begun))] if begun is not None else []
        self._write(run_id, ("HSET", key, keys.PLAN, text), *outdated)

    def plan(self, run_id: str, name: str) -> Plan:
        text = self.redis.hget(plan_key(run_id, name), keys.PLAN)
        if text is None:
            raise KeyError(f"no plan {name!r} of run {run_id!r} in the store")
        return _read_plan(cast(bytes, text))

    def forget_plans(self, run_id: str, names: Iterable[str]) -> None:
        """Delete plans with the records of their stages: of a generation that is in the output folder."""
        for name in names:
            self._write(run_id, ("UNLINK", plan_key(run_id, name)))
            for failure in self.failures(run_id, name):
                self.forget_failure(failure)

    def next_attempt(self, run_id: str, name: str) -> int:
        """The number of a new attempt at a plan or the jobs; tasks of an earlier one end without work from here on."""
        names = [run_key(run_id, keys.FENCE), plan_key(run_id, name)]
        return cast(int, self._run_script(_NEXT_ATTEMPT, run_id, names))

    def attempt(self, run_id: str, name: str) -> int:
        """The latest attempt, 0 before the first."""
        return int(cast("bytes | None", self.redis.hget(plan_key(run_id, name), keys.ATTEMPT)) or 0)

    def stage_state(self, run_id: str, name: str, stage: str) -> tuple[WorkState, Run, Plan]:
        """In one trip."""
        pipe = self.redis.pipeline(transaction=False)
        pipe.get(run_key(run_id, keys.SETTINGS))
        pipe.hmget(plan_key(run_id, name), [keys.PLAN, keys.ATTEMPT, stage])
        pipe.hget(run_key(run_id, keys.METADATA), keys.CANCELLED)
        settings, (plan, attempt, record), cancelled = pipe.execute()
        if settings is None or plan is None:
            raise KeyError(f"no plan {name!r} of a run {run_id!r} in the store")
        state = WorkState(int(attempt or 0), record is not None, bool(cancelled))
        return state, read_run(settings), _read_plan(plan)

    def put_stage(self, run_id: str, name: str, stage: str, outcome: Mapping[str, Any], attempt: int) -> None:
        """Record the outcome of a stage; the first one stands, and an attempt that was forgotten writes nothing."""
        arguments: list[Part] = [keys.OUTDATED, attempt, stage, json.dumps(outcome)]
        self.redis.register_script(_PUT_STAGE)([plan_key(run_id, name)], arguments)

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

    def put_job(self, run_id: str, key: str, spec: JobSpec) -> None:
        self._write(run_id, ("HSET", plan_key(run_id, keys.JOBS), key, spec.to_json()))

    def job_spec(self, run_id: str, key: str) -> JobSpec | None:
        text = cast("bytes | None", self.redis.hget(plan_key(run_id, keys.JOBS), key))
        return None if text is None else JobSpec.from_json(text)

    def job_state(self, run_id: str, key: str) -> tuple[WorkState, JobSpec]:
        """In one trip."""
        pipe = self.redis.pipeline(transaction=False)
        pipe.hmget(plan_key(run_id, keys.JOBS), [keys.ATTEMPT, key])
        pipe.exists(result_key(key))
        pipe.hget(run_key(run_id, keys.METADATA), keys.CANCELLED)
        (attempt, spec), done, cancelled = pipe.execute()
        if spec is None:
            raise KeyError(f"no job {key!r} of a run {run_id!r} in the store")
        return WorkState(int(attempt or 0), bool(done), bool(cancelled)), JobSpec.from_json(spec)

    # What failed, in plans and jobs.

    def begin_attempt(self, run_id: str, record: str, keep: Callable[[list[Failure]], list[Failure]]) -> int:
        """The number of a new attempt at a plan or the jobs; `keep` says which failures of the one before stand."""
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

    def failed_tasks(self, run_id: str) -> list[Failure]:
        """What the latest attempt at each record has failed at, oldest first."""
        failures = self.failures(run_id)
        attempts = {record: self.attempt(run_id, record) for record in {failure.record for failure in failures}}
        return [failure for failure in failures if failure.attempt == attempts[failure.record]]

    def forget_failure(self, failure: Failure) -> bool:
        """Returns whether it was there: of several processes that forget it at the same time, one gets True."""
        field = failure_field(failure.record, failure.name)
        return bool(self._write(failure.run, ("HDEL", run_key(failure.run, keys.FAILURES), field))[0])

    def failure_count(self, run_id: str, what: str) -> int:
        """How often a task or a call has failed so far."""
        return int(cast("bytes | None", self.redis.hget(run_key(run_id, keys.TRIES), what)) or 0)

    def count_failure(self, run_id: str, what: str, times: int) -> int:
        """Count that a task has failed `times` more; returns how often in all."""
        return self.redis.hincrby(run_key(run_id, keys.TRIES), what, times)


# Every stage reads its plan, and the many stages of a plan the same one.
@lru_cache(maxsize=8)
def _read_plan(text: bytes) -> Plan:
    return parse_json(Plan, text)


# Likewise its run: checking its fields takes longest.
@lru_cache(maxsize=8)
def read_run(text: bytes) -> Run:
    return parse_json(Run, text)
