"""Runs on a real Valkey: plans, attempts and failures, one owner at a time, and no write of an earlier one."""

from __future__ import annotations

import dataclasses
import multiprocessing
import socket
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from farm_bench import until
from simulated_run import RUN

from tasks.common.process import identify
from tasks.plan import Candidate, Merge, Plan
from tasks.records import Failure, JobSpec
from tasks.store.address import store_url
from tasks.store.client import RunTaken, connect, hold_lock
from tasks.store.ownership import Owner, RunLease, read_lease
from tasks.store.store import Store, record_use

PLAN = Plan(
    "offspring",
    0,
    (
        Candidate(0, (0.0, 1.5), "pad\nof two lines", target=1, parents=(2,)),
        Candidate(1, (1.0, 0.0), merge=Merge("a", 1.0, "b", 0.5)),
    ),
)
SCORED = {"0:pre:score": {"fitness": 1.0}}
FAILED = Failure("run", PLAN.name, "0", "g0_pop0", "score", "E", "task-0", 1, 0.0, 1)


def test_the_first_record_of_a_stage_stands_until_a_different_plan_takes_its_name(store: Store) -> None:
    store.put_plan("r", PLAN)
    for fitness in (1.0, 2.0):
        store.put_stage("r", PLAN.name, "0:pre:score", {"fitness": fitness}, 1)
    store.put_plan("r", PLAN)
    assert store.plan("r", PLAN.name) == PLAN and store.stages("r", PLAN.name) == SCORED
    store.put_plan("r", dataclasses.replace(PLAN, candidates=PLAN.candidates[:1]))
    assert store.stages("r", PLAN.name) == {}


@pytest.mark.parametrize("forget", ["forget_stages", "forget_plans"])
def test_records_that_are_forgotten_are_not_written_again_by_a_task_of_an_earlier_attempt(
    store: Store, forget: str
) -> None:
    # Given a plan with a record, and a task of its first attempt that is still at work
    store.put_plan("r", PLAN)
    store.begin_attempt("r", PLAN.name, lambda failures: [])
    store.put_stage("r", PLAN.name, "0:pre:score", {"fitness": 3.0}, 1)
    # When the records are forgotten, and the task ends after that, and again when the plan is made anew
    getattr(store, forget)("r", [PLAN.name, "g9_child"])
    for _ in range(2):
        store.put_stage("r", PLAN.name, "1:pre:judge", {"by": "old"}, 1)
        assert store.stages("r", PLAN.name) == {}
        store.put_plan("r", PLAN)
    # Then only the next attempt leaves records
    attempt = store.begin_attempt("r", PLAN.name, lambda failures: [])
    store.put_stage("r", PLAN.name, "0:pre:score", {"fitness": 1.0}, attempt)
    assert store.stages("r", PLAN.name) == SCORED and store.plan("r", PLAN.name) == PLAN


def test_failures_are_forgotten_by_the_next_attempt(store: Store) -> None:
    store.put_plan("run", PLAN)
    assert store.begin_attempt("run", PLAN.name, lambda failures: []) == 1
    store.put_failure(FAILED)
    assert store.failures("run") == store.failures("run", PLAN.name) == [FAILED]
    assert store.failures("run", "jobs") == []
    assert store.begin_attempt("run", PLAN.name, lambda failures: []) == 2
    assert store.failures("run") == []


def test_a_run_comes_back_as_it_went_in_newlines_and_all(store: Store) -> None:
    run = dataclasses.replace(RUN, target=dataclasses.replace(RUN.target, prompt_template="{context}\n\n"))
    store.put_run(run)
    assert store.run(run.id) == run


def test_lost_counters_are_restored_once_where_the_reply_is_lost_and_the_command_is_sent_again(store: Store) -> None:
    for _ in range(2):
        store.restore_usage("run-1", {"requests": 2, "cost_usd": 0.5})
    assert store.usage("run-1") == {"requests": 2, "cost_usd": 0.5}


def test_a_use_counts_once_for_each_question_that_it_shares(store: Store) -> None:
    assert [record_use(store.redis, ["q1", "q2"], use) for use in ("one", "one", "two")] == [1, 1, 2]
    assert record_use(store.redis, ["q2", "q3"], "three") == 3
    assert record_use(store.redis, ["q4"], "one") == 1


SCORE = ("run", PLAN.name, "0:pre:score", {"fitness": 1.0})
WRITES: dict[str, Callable[[Store], Any]] = {
    "put_run": lambda store: store.put_run(dataclasses.replace(RUN, id="run")),
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


def make_lease(store: Store) -> RunLease:
    return RunLease(store.redis, "run", Owner.here("outputs/run"))


def take(store: Store, replaced: RunLease | None = None) -> tuple[Store, RunLease]:
    lease = make_lease(store)
    assert lease.take(replaced.held() if replaced else None)
    return store.of_owner(lease.owner.to_json()), lease


def contents(store: Store) -> dict[bytes, object]:
    return {key: store.redis.dump(key) for key in store.redis.keys("*")}


@pytest.mark.parametrize("name", WRITES)
def test_no_write_of_an_earlier_owner_is_done(store: Store, name: str) -> None:
    # Given an owner that wrote a run, and another process that has taken the run over
    first, lease = take(store)
    for write in ("put_run", "next_attempt", "put_shared", "put_file", "restore_usage"):
        WRITES[write](first)
    first.put_plan("run", PLAN)
    first.put_stage(*SCORE, 2)
    store.put_failure(FAILED)
    second, _ = take(store, replaced=lease)
    before = contents(store)
    # When the first one writes, then nothing changes; the second one may
    with pytest.raises(RunTaken, match="another process has taken run run over, or it was deleted"):
        WRITES[name](first)
    assert contents(store) == before
    WRITES[name](second)


def test_nothing_is_written_in_the_name_of_a_run_that_was_deleted(store: Store) -> None:
    first, _ = take(store)
    WRITES["put_run"](first)
    first.delete_run("run")
    with pytest.raises(RunTaken):
        first.put_metadata("run", "status", "{}")
    assert store.redis.keys("*") == []


def test_a_lease_is_held_by_one_process_until_it_gives_it_up_or_is_replaced(store: Store) -> None:
    first, second, third = make_lease(store), make_lease(store), make_lease(store)
    assert first.take() and first.take()  # a reply that was lost: it is asked again
    assert (second.take(), second.renew()) == (False, False)
    held = read_lease(store.redis, "run")
    assert held is not None and held.owner == first.owner
    # Of several that replace an owner one succeeds, and one that does not know it gives up nothing of the other's
    assert second.take(replaced=held) and not third.take(replaced=held)
    first.release()
    assert (first.renew(), second.renew()) == (False, True)
    second.release()
    assert read_lease(store.redis, "run") is None
    assert third.take()


def test_an_owner_says_who_it_is_and_whether_it_has_ended() -> None:
    owner = Owner.here("/outputs/run")
    assert f"process {owner.pid} on host {socket.gethostname()} (since " in str(owner)
    assert owner.is_visible and not owner.has_ended()
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
        process = identify(child.pid)
        other = dataclasses.replace(owner, pid=process.pid, started=process.started)
        assert not other.has_ended()
    assert other.has_ended()
    # Of a process in another container, or before a restart of the machine, nothing is known
    for elsewhere in (dataclasses.replace(other, namespace="pid:[1]"), dataclasses.replace(other, boot="b")):
        assert not elsewhere.is_visible and not elsewhere.has_ended()


def test_one_works_while_the_others_wait(store: Store) -> None:
    inside: list[int] = []

    def work(number: int) -> list[int]:
        with hold_lock(store.redis, "work"):
            inside.append(number)
            threading.Event().wait(0.02)  # long enough for the others to come in
            found = list(inside)
            inside.clear()
        return found

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(work, range(6))) == [[number] for number in range(6)]
    assert store.redis.keys("*") == []


def hold(url: str, ttl: float) -> None:
    """In a process of its own: take the lock and keep it until killed."""
    with hold_lock(connect(store_url(url)), "work", ttl):
        threading.Event().wait()


@pytest.mark.timeout(30)
def test_a_lock_is_kept_for_longer_than_its_time_to_live_until_its_process_is_killed(
    store: Store, valkey_url: str
) -> None:
    process = multiprocessing.get_context("spawn").Process(target=hold, args=(valkey_url, 0.5))
    process.start()
    until(lambda: store.redis.exists("whetstone:lock:work"))
    threading.Event().wait(1.2)
    assert store.redis.exists("whetstone:lock:work")
    process.kill()
    process.join()
    with hold_lock(store.redis, "work", ttl=1.0):
        pass
