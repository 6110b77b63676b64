"""What the store forgets: finished runs and results that no run holds; never what a run at work or parked needs."""

from __future__ import annotations

import json
import time

from tasks.store import keys
from tasks.store.keys import run_key
from tasks.store.ownership import Owner, RunLease
from tasks.store.store import Store

DAY_S = 24 * 3600


def put_run(store: Store, run: str, state: str = "finished", days_ago: float = 0.0) -> None:
    """A run whose driver published this state so many days ago."""
    store.set_requirements(run, "code", "model")
    store.put_metadata(run, keys.STATUS, json.dumps({"state": state, "updated": time.time() - days_ago * DAY_S}))


def test_a_run_that_finished_long_ago_is_removed_with_all_its_keys(store: Store) -> None:
    put_run(store, "old", days_ago=31)
    put_run(store, "recent", days_ago=29)
    store.put_prompt("old", "name", "text")

    store.retention.apply_rule("new", 30)

    assert store.run_ids() == ["recent"]
    assert not list(store.redis.scan_iter(match=run_key("old", "*")))


def test_a_run_that_is_parked_stopped_or_driven_is_never_removed(store: Store) -> None:
    for state in ("parked", "stopped", "running"):
        put_run(store, state, state, days_ago=1000)
    put_run(store, "driven", days_ago=1000)
    assert RunLease(store.redis, "driven", Owner.here("outputs/driven")).take()
    store.set_requirements("begins", "code", "model")  # it has published nothing so far

    store.retention.apply_rule("new", 0)

    assert store.run_ids() == ["begins", "driven", "parked", "running", "stopped"]
    assert not any(store.retention.remove_finished(run, time.time()) for run in store.run_ids())


def test_a_run_that_begins_after_the_look_at_it_is_not_removed(store: Store) -> None:
    put_run(store, "old", days_ago=31)
    before = time.time() - 30 * DAY_S
    assert store.retention.finished_before(before) == ["old"]
    put_run(store, "old", "running")
    assert not store.retention.remove_finished("old", before)
    assert store.run_ids() == ["old"]


def test_a_result_that_a_task_wrote_after_the_end_of_its_run_expires(store: Store) -> None:
    # Given a run that was deleted while a task of it was about to write, and one that holds its result
    for run in ("holds", "deleted"):
        put_run(store, run, "parked")
        store.put_shared(run, f"answer:{run.encode().hex():0>64}", {"text": "so"})
    store.redis.srem(keys.RUNS, "deleted")
    store.redis.sadd(keys.test_uses_key("f" * 64), "deleted")

    store.retention.apply_rule("new", 2)

    held, unheld = (store.redis.ttl(f"whetstone:answer:{run.encode().hex():0>64}") for run in ("holds", "deleted"))
    assert held == -1 and 0 < unheld <= 2 * DAY_S
    assert store.redis.ttl(keys.test_uses_key("f" * 64)) == -1, "how often a test set was used is never forgotten"


def test_only_results_that_no_run_holds_at_that_moment_are_removed(store: Store) -> None:
    # Given three results that no run holds, of which one is taken by a run after the list was made
    put_run(store, "first", "running")
    names = {name: f"answer:{name * 64}" for name in "abc"}
    for name, life_s in (("c", 300), ("a", 100), ("b", 200)):
        store.put_shared("first", names[name], {"text": name})
        store.release_shared("first", life_s)
    found = store.retention.unheld()
    assert [result.key[-1] for result in found] == ["a", "b", "c"]
    assert all(result.kind == "answer" and result.size > 0 for result in found)
    store.shared("first", [names["b"]])

    assert store.retention.remove_results(found) == 2

    assert store.shared("first", list(names.values())) == {names["b"]: {"text": "b"}}


def test_results_are_removed_until_the_store_is_small_enough(store: Store) -> None:
    put_run(store, "first", "running")
    for number in range(600):
        store.put_shared("first", f"answer:{number:064}", {"text": "x" * 10_000})
    store.release_shared("first", 1000)
    used, _ = store.retention.memory()

    removed = store.retention.shrink(used - 2_000_000)

    assert 100 < removed < 600
    assert store.retention.memory()[0] <= used - 2_000_000
