"""How long shared results are kept: as long as a run holds them, and some days after that."""

from __future__ import annotations

from itertools import count

import pytest
import redis

from tasks.store.keys import result_key
from tasks.store.retention import KEPT_S
from tasks.store.store import Store

ANSWER = "whetstone:answer:a"
KEY, OTHER = "answer:" + "a" * 64, "answer:" + "b" * 64
KEPT_FOR_EVER, GONE = -1, -2  # Redis' times to live


def ttl(store: Store) -> int:
    return int(store.redis.ttl(ANSWER))


def test_a_result_expires_days_after_the_run_has_released_it(store: Store) -> None:
    store.put_shared("first", "answer:a", {"text": "so"})
    assert ttl(store) == KEPT_FOR_EVER
    store.release_shared("first")
    assert KEPT_S - 5 <= ttl(store) <= KEPT_S


def test_a_result_that_is_used_again_is_held_again(store: Store) -> None:
    store.put_shared("first", "answer:a", {"text": "so"})
    store.release_shared("first")
    assert store.shared("second", ["answer:a", "answer:b"]) == {"answer:a": {"text": "so"}}
    assert ttl(store) == KEPT_FOR_EVER
    store.release_shared("second", kept_s=60)
    assert 55 <= ttl(store) <= 60


def test_what_another_run_holds_does_not_expire(store: Store) -> None:
    for run in ("first", "second"):
        store.put_metadata(run, "code", "c")
        store.set_requirements(run, "c", "")
        store.put_shared(run, "answer:a", {"text": "so"})
    store.release_shared("first")
    assert ttl(store) == KEPT_FOR_EVER
    store.delete_run("second")
    assert 0 < ttl(store) <= KEPT_S


def test_a_clustering_is_held_until_its_run_ends_and_expires_then(store: Store) -> None:
    def clustering_ttl() -> int:
        return int(store.redis.ttl("whetstone:clustering:c"))

    for run in ("first", "second"):
        store.set_requirements(run, "c", "")
    store.clusterings.put("first", "c", b"", "[]")
    # Given a generation that is finished, and another run that uses the clustering
    store.release_shared("first")
    assert store.clusterings.hold("second", "c")
    store.clusterings.release("first")
    assert clustering_ttl() == KEPT_FOR_EVER
    store.clusterings.release("second", kept_s=60)
    assert 55 <= clustering_ttl() <= 60
    # When a run goes on with it, then it is held again; one that is gone is made again
    assert store.clusterings.hold("first", "c") and clustering_ttl() == KEPT_FOR_EVER
    assert not store.clusterings.hold("first", "gone")
    store.delete_run("second")
    store.delete_run("first")
    assert clustering_ttl() == GONE


@pytest.fixture
def full(store: Store) -> redis.Redis:
    """A server with little room left."""
    used = int(store.redis.info("memory")["used_memory"])
    store.redis.config_set("maxmemory", used + 2_000_000)
    yield store.redis
    store.redis.config_set("maxmemory", 0)


def test_from_a_full_server_is_removed_what_no_run_holds_and_nothing_else(store: Store, full: redis.Redis) -> None:
    # Given a result that a run holds, one that no run holds, and a lock, which expires too
    store.redis.set("whetstone:lock:a", "1", ex=60)
    store.put_shared("first", KEY, {"text": "so"})
    store.release_shared("first")
    store.put_shared("second", OTHER, {"text": "so"})
    # When other results fill the memory
    for number in count():
        store.put_shared("third", f"answer:{number:064}", {"text": "x" * 100_000})
        store.release_shared("third")
        if not store.redis.exists(result_key(KEY)):
            break
    # Then a run does not find the first any more, and computes it again; the other is there
    assert store.shared("fourth", [KEY]) == {}
    assert store.shared("second", [OTHER]) == {OTHER: {"text": "so"}}
    assert store.redis.exists("whetstone:lock:a")


def test_usage_is_counted_once_for_a_result_that_is_sent_twice(store: Store) -> None:
    for _ in range(2):  # the reply to the first was lost
        store.put_shared("first", "answer:a", {"text": "so"}, {"target": 3})
    store.put_shared("second", "answer:a", {"text": "so"}, {"target": 3})
    assert store.usage("first") == store.usage("second") == {"target": 3.0}
    # A run that computes it anew, because it has expired meanwhile, pays for it again.
    store.release_shared("first")
    store.release_shared("second", kept_s=0)
    store.put_shared("first", "answer:a", {"text": "so"}, {"target": 3})
    assert store.usage("first") == {"target": 6.0}


def test_the_latest_checkpoint_stands_and_is_held(store: Store) -> None:
    key = f"checkpoint:{'0' * 64}"
    assert store.checkpoint("run", key) is None
    for data in (b"first", b"\x00second"):
        store.put_checkpoint("run", key, data)
    assert store.checkpoint("run", key) == b"\x00second"
    # it expires some time after its run has ended
    store.release_shared("run", 60)
    assert 55 <= int(store.redis.ttl(result_key(key))) <= 60
