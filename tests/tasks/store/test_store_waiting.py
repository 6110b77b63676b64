"""A store that refuses is waited for, whatever its reason: with a line that names it, and for a limited time."""

from __future__ import annotations

import threading
import time

import pytest
import redis
from farm_bench import RefusingValkey

from tasks.plan import Plan
from tasks.store.address import store_url
from tasks.store.client import StoreUnusable, Waiting, connect
from tasks.store.store import Store, open_store

REASONS = ("refuses: MISCONF", "refuses: OOM", "refuses: READONLY", "does not answer")


@pytest.mark.parametrize("reason", REASONS)
def test_every_write_is_waited_out_and_happens_once_the_store_accepts_it(
    refusing_valkey: RefusingValkey, reason: str
) -> None:
    # Given a store that refuses, for one of the reasons
    checked = threading.Event()
    waiting = Waiting(30.0, check=checked.set)
    store = Store(connect(store_url(refusing_valkey.url), waiting))
    store.put_file("run", "data", b"before")
    store.put_plan("run", Plan("g0", 0, ()))
    with refusing_valkey.refusals[reason]():
        # when a command, a transaction and a script are sent
        work = [
            threading.Thread(target=store.put_file, args=("run", "data", b"after")),
            threading.Thread(target=store.put_shared, args=("run", "answer:1", {"text": "a"}, {"target": 3.0})),
            threading.Thread(target=store.put_stage, args=("run", "g0", "0:pre:score", {"fitness": 1.0}, 1)),
        ]
        for thread in work:
            thread.start()
        assert checked.wait(10)
    # then each is done, once the store accepts writes again
    for thread in work:
        thread.join(10)
    assert store.file("run", "data") == b"after"
    assert store.shared("run", ["answer:1"]) == {"answer:1": {"text": "a"}}
    assert store.stage("run", "g0", "0:pre:score") == {"fitness": 1.0}
    store.redis.flushall()


@pytest.mark.parametrize("reason", [*REASONS, "does not answer and stays connected"])
def test_a_store_that_refuses_for_too_long_ends_the_command_with_the_reason(
    refusing_valkey: RefusingValkey, reason: str
) -> None:
    client = connect(store_url(refusing_valkey.url), Waiting(1.0), timeout_s=0.2)
    with refusing_valkey.refusals.get(reason, refusing_valkey.silent)():
        with pytest.raises(StoreUnusable, match=f"the store {reason[:15]}.*, for 1 s"):
            client.set("key", "x" * 100)
        # What is still done to end in order does not wait again.
        began = time.monotonic()
        with pytest.raises(redis.RedisError):
            client.set("key", "x" * 100)
        assert time.monotonic() - began < 0.8


def test_room_is_made_in_a_memory_that_is_full(refusing_valkey: RefusingValkey) -> None:
    # Given a store with results that no run holds, a lock, which expires too, and less memory than they take
    lines: list[str] = []
    store = open_store(refusing_valkey.url, Waiting(20.0, lines.append))
    for number in range(40):
        store.put_shared("run", f"answer:{number:016x}", {"text": "x" * 100_000})
    store.release_shared("run", kept_s=3600)
    store.put_shared("other", f"answer:{99:016x}", {"text": "held"})
    store.redis.set("whetstone:lock:a", "1", ex=600)
    before = store.retention.memory()[0]
    try:
        refusing_valkey.broker.config_set("maxmemory", before - 100_000)
        # when a command is refused, then it makes room itself, and nothing that is held is gone
        store.put_file("other", "data", b"x" * 1000)
        assert store.file("other", "data") == b"x" * 1000
        assert store.retention.memory()[0] < before
        assert store.shared("other", [f"answer:{99:016x}"]) and store.redis.exists("whetstone:lock:a")
        assert lines == []
    finally:
        refusing_valkey.broker.config_set("maxmemory", 0)
        store.redis.flushall()
