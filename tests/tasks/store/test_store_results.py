"""What runs share, and what the store forgets: never what a run at work or parked needs."""

from __future__ import annotations

import json
import time

from tasks.store import keys
from tasks.store.keys import clustering_key, result_key, run_key
from tasks.store.ownership import Owner, RunLease
from tasks.store.retention import DAY_S, KEPT_S
from tasks.store.store import Store

KEY, OTHER = "answer:" + "a" * 64, "answer:" + "b" * 64
SO = {"text": "so"}
KEPT_FOR_EVER = -1  # Redis' time to live


def ttl(store: Store, key: str) -> int:
    return int(store.redis.ttl(key))


def put_run(store: Store, run: str, state: str = "finished", days_ago: float = 0.0) -> None:
    """A run whose driver published this state so many days ago."""
    store.set_requirements(run, "code", "model")
    store.put_metadata(run, keys.STATUS, json.dumps({"state": state, "updated": time.time() - days_ago * DAY_S}))


def test_the_first_of_a_shared_result_stands_until_the_last_run_that_used_it_is_deleted(store: Store) -> None:
    for run in ("one", "two"):
        put_run(store, run)
        store.put_shared(run, KEY, {"text": run})
    store.delete_run("one")
    assert store.shared("two", [KEY, OTHER]) == {KEY: {"text": "one"}}
    store.delete_run("two")
    assert store.redis.keys("*") == []


def test_a_result_expires_some_time_after_the_last_run_that_holds_it_has_released_it(store: Store) -> None:
    for run in ("first", "second"):
        put_run(store, run)
        store.put_shared(run, KEY, SO)
    store.release_shared("first")
    assert ttl(store, result_key(KEY)) == KEPT_FOR_EVER
    store.delete_run("second")
    assert KEPT_S - 50 <= ttl(store, result_key(KEY)) <= KEPT_S
    # And one that is used again is held again
    assert store.shared("third", [KEY, OTHER]) == {KEY: SO}
    assert ttl(store, result_key(KEY)) == KEPT_FOR_EVER


def test_a_clustering_is_held_until_its_run_ends_and_expires_then(store: Store) -> None:
    for run in ("first", "second"):
        put_run(store, run)
    store.clusterings.put("first", "c", b"", "[]")
    assert store.clusterings.hold("second", "c")
    store.clusterings.release("first")
    assert ttl(store, clustering_key("c")) == KEPT_FOR_EVER
    store.clusterings.release("second", kept_s=600)
    assert 550 <= ttl(store, clustering_key("c")) <= 600
    # When a run goes on with it, then it is held again; one that is gone is made again
    assert store.clusterings.hold("first", "c") and ttl(store, clustering_key("c")) == KEPT_FOR_EVER
    assert not store.clusterings.hold("first", "gone")


def test_usage_is_counted_once_for_a_result_that_is_sent_twice(store: Store) -> None:
    for _ in range(2):  # the reply to the first was lost
        store.put_shared("first", KEY, SO, {"target": 3})
    store.put_shared("second", KEY, SO, {"target": 3})
    assert store.usage("first") == store.usage("second") == {"target": 3.0}
    # A run that computes it anew, because it has expired meanwhile, pays for it again.
    store.release_shared("first")
    store.release_shared("second", kept_s=0)
    store.put_shared("first", KEY, SO, {"target": 3})
    assert store.usage("first") == {"target": 6.0}


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
    # Nor one that begins again after the look at it
    put_run(store, "old", days_ago=31)
    before = time.time() - 30 * DAY_S
    assert store.retention.finished_before(before) == ["old"]
    put_run(store, "old", "running")
    assert not store.retention.remove_finished("old", before) and "old" in store.run_ids()


def test_a_result_that_a_task_wrote_after_the_end_of_its_run_expires(store: Store) -> None:
    # Given a run that was deleted while a task of it was about to write, and one that holds its result
    for run, key in (("holds", KEY), ("deleted", OTHER)):
        put_run(store, run, "parked")
        store.put_shared(run, key, SO)
    store.redis.srem(keys.RUNS, "deleted")
    store.redis.sadd(keys.test_uses_key("f" * 64), "deleted")
    store.retention.apply_rule("new", 2)
    assert ttl(store, result_key(KEY)) == KEPT_FOR_EVER and 0 < ttl(store, result_key(OTHER)) <= 2 * DAY_S
    assert ttl(store, keys.test_uses_key("f" * 64)) == KEPT_FOR_EVER, "how often a test set was used is not forgotten"


def test_only_results_that_no_run_holds_at_that_moment_are_removed(store: Store) -> None:
    # Given results that no run holds, of which one is taken by a run after the list was made
    put_run(store, "first", "running")
    names = {name: f"answer:{name * 64}" for name in "abc"}
    for life_s, (name, key) in zip((100, 200, 300), names.items(), strict=True):
        store.put_shared("first", key, {"text": name})
        store.release_shared("first", life_s)
    found = store.retention.unheld()
    assert [result.key[-1] for result in found] == ["a", "b", "c"]
    store.shared("first", [names["b"]])
    assert store.retention.remove_results(found) == 2
    assert store.shared("first", list(names.values())) == {names["b"]: {"text": "b"}}
