"""The part of the store that knows plans: their dispatches, what their stages left, what failed, and the bell."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

from tasks.keys import CANCELLED, plan_key, run_key, text_of
from tasks.plan import Plan
from tasks.run import Run
from tasks.run_records import RunRecords, run_from


@dataclass(frozen=True)
class Situation:
    """Where a stage finds itself: its run and plan, the plan's latest dispatch, and whether it has been done."""

    run: Run
    plan: Plan
    dispatch: int
    done: bool
    cancelled: bool


class PlanRecords(RunRecords):
    """See `tasks.store.Store`."""

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

    def next_dispatch(self, run_id: str, name: str) -> int:
        """The number of a new dispatch of a plan; tasks of an earlier one step aside from here on."""
        return self.redis.hincrby(plan_key(run_id, name), "dispatch", 1)

    def dispatch(self, run_id: str, name: str) -> int:
        """The number of the latest dispatch, 0 before the first."""
        return int(cast("bytes | None", self.redis.hget(plan_key(run_id, name), "dispatch")) or 0)

    def situation(self, run_id: str, name: str, stage: str) -> Situation:
        """All that a stage must know before it begins, in one trip.  Raises: KeyError for an unknown run or plan."""
        pipe = self.redis.pipeline(transaction=False)
        pipe.get(run_key(run_id, "settings"))
        pipe.hmget(plan_key(run_id, name), ["plan", "dispatch", stage])
        pipe.hget(run_key(run_id, "facts"), CANCELLED)
        settings, (plan, dispatch, record), cancelled = pipe.execute()
        if settings is None or plan is None:
            raise KeyError(f"no plan {name!r} of a run {run_id!r} in the store")
        return Situation(run_from(settings), _plan_from(plan), int(dispatch or 0), record is not None, bool(cancelled))

    def put_stage(self, run_id: str, name: str, stage: str, outcome: Mapping[str, Any]) -> None:
        """Record what a stage of a member came to; the first record stands."""
        self.redis.hsetnx(plan_key(run_id, name), stage, json.dumps(outcome))

    def stage(self, run_id: str, name: str, stage: str) -> dict[str, Any] | None:
        text = self.redis.hget(plan_key(run_id, name), stage)
        return None if text is None else cast("dict[str, Any]", json.loads(cast(bytes, text)))

    def stages(self, run_id: str, name: str, known: Iterable[str] = ()) -> dict[str, dict[str, Any]]:
        """The stages recorded so far, without those already known."""
        key = plan_key(run_id, name)
        fields = {f.decode() for f in cast("list[bytes]", self.redis.hkeys(key))} - {"plan", "dispatch"} - set(known)
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

    def wake(self, run_id: str) -> None:
        """Tell whoever waits for the run to look at the record now."""
        self.redis.lpush(run_key(run_id, "wake"), "1")
        self.redis.expire(run_key(run_id, "wake"), 3600)

    def wait(self, run_id: str, seconds: float) -> None:
        """Sleep until `wake`, but no longer than `seconds`."""
        self.redis.blpop([run_key(run_id, "wake")], timeout=seconds)
        self.redis.delete(run_key(run_id, "wake"))


# As of its run, every stage asks for its plan.
@lru_cache(maxsize=8)
def _plan_from(text: bytes) -> Plan:
    return Plan.from_json(text.decode())
