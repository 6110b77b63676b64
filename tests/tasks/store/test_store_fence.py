"""What is written in the name of a run is refused from a process that another one has replaced, on a real Valkey."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from test_store_plans import PLAN, failure, make_run

from tasks.records import JobSpec
from tasks.store import keys
from tasks.store.client import RunTaken
from tasks.store.ownership import Owner, RunLease
from tasks.store.store import Store

RUN = make_run("run")
FAILED = dataclasses.replace(failure("0", 1), run="run")
WRITES: dict[str, Callable[[Store], Any]] = {
    "put_run": lambda store: store.put_run(RUN),
    "put_metadata": lambda store: store.put_metadata("run", "status", "{}"),
    "set_requirements": lambda store: store.set_requirements("run", "code", "model"),
    "put_examples": lambda store: store.put_examples("run", {}),
    "put_plan": lambda store: store.put_plan("run", dataclasses.replace(PLAN, purpose="population")),
    "forget_plans": lambda store: store.forget_plans("run", [PLAN.name]),
    "forget_stages": lambda store: store.forget_stages("run", [PLAN.name]),
    "next_attempt": lambda store: store.next_attempt("run", PLAN.name),
    "begin_attempt": lambda store: store.begin_attempt("run", PLAN.name, lambda failures: []),
    "put_job": lambda store: store.put_job("run", "file:x", JobSpec("cpu.plot", "x", {})),
    "forget_failure": lambda store: store.forget_failure(FAILED),
    "put_shared": lambda store: store.put_shared("run", "answer:x", {}),
    "release_shared": lambda store: store.release_shared("run"),
    "release_clusterings": lambda store: store.clusterings.release("run"),
    "put_file": lambda store: store.put_file("run", "name", b"\x00\xff"),
    "forget_file": lambda store: store.forget_file("run", "file:x"),
    "restore_usage": lambda store: store.restore_usage("run", {"requests": 1}),
    "add_providers": lambda store: store.add_providers("run", "judge", ["name"]),
    "delete_run": lambda store: store.delete_run("run"),
}


def take(store: Store, replaced: RunLease | None = None) -> tuple[Store, RunLease]:
    lease = RunLease(store.redis, "run", Owner.here("outputs/run"))
    assert lease.take(replaced.held() if replaced else None)
    return store.of_owner(lease.owner.to_json()), lease


@pytest.mark.parametrize("name", WRITES)
def test_no_write_of_an_earlier_owner_is_done(store: Store, name: str) -> None:
    # Given an owner that wrote a run, and another process that has taken the run over
    first, lease = take(store)
    for write in ("put_run", "next_attempt", "put_shared", "put_file", "restore_usage"):
        WRITES[write](first)
    first.put_plan("run", PLAN)
    first.put_stage("run", PLAN.name, "0:pre:score", {"fitness": 1.0}, 2)
    store.put_failure(FAILED)
    second, _ = take(store, replaced=lease)
    before = contents(store)
    # When the first one writes, then nothing changes; the second one may
    with pytest.raises(RunTaken, match="another process has taken run run over, or it was deleted"):
        WRITES[name](first)
    assert contents(store) == before
    WRITES[name](second)


def contents(store: Store) -> dict[bytes, object]:
    return {key: store.redis.dump(key) for key in store.redis.keys("*")}


def test_nothing_is_written_in_the_name_of_a_run_that_was_deleted(store: Store) -> None:
    first, _ = take(store)
    first.put_run(RUN)
    first.delete_run("run")
    with pytest.raises(RunTaken):
        first.put_metadata("run", "status", "{}")
    assert store.redis.keys("*") == []


def test_a_plan_that_was_deleted_takes_no_record_also_when_it_is_made_again(store: Store) -> None:
    # Given a task at work whose plan is deleted
    owner, _ = take(store)
    owner.put_plan("run", PLAN)
    attempt = owner.begin_attempt("run", PLAN.name, lambda failures: [])
    owner.forget_plans("run", [PLAN.name])
    # When the task ends, then there is no record, nor when a plan of this name is made again
    store.put_stage("run", PLAN.name, "0:pre:score", {"fitness": 1.0}, attempt)
    assert store.redis.exists(keys.plan_key("run", PLAN.name)) == 0
    owner.put_plan("run", PLAN)
    store.put_stage("run", PLAN.name, "0:pre:score", {"fitness": 1.0}, attempt)
    assert store.stages("run", PLAN.name) == {}
