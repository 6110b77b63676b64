"""Locks on a real Valkey, with real processes."""

from __future__ import annotations

import multiprocessing
import threading
import time
from multiprocessing.connection import Connection

from tasks.store.address import store_url
from tasks.store.client import connect, hold_lock
from tasks.store.store import Store


def hold(url: str, ttl: float, ready: Connection) -> None:
    """In a process of its own: take the lock, say so, and keep it until killed."""
    with hold_lock(connect(store_url(url)), "work", ttl):
        ready.send("held")
        threading.Event().wait()


def test_one_works_while_the_others_wait(store: Store) -> None:
    inside, most, lock = 0, 0, threading.Lock()

    def work() -> None:
        nonlocal inside, most
        with hold_lock(store.redis, "work"):
            with lock:
                inside += 1
                most = max(most, inside)
            threading.Event().wait(0.02)
            with lock:
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
    assert store.redis.keys("*") == []


def test_a_lock_is_kept_for_longer_than_its_time_to_live(store: Store) -> None:
    with hold_lock(store.redis, "work", ttl=0.4):
        threading.Event().wait(1.0)
        assert store.redis.exists("whetstone:lock:work")


def test_the_lock_of_a_killed_process_is_free_again_soon(store: Store, valkey_url: str) -> None:
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=hold, args=(valkey_url, 1.0, sender))
    process.start()
    assert receiver.recv() == "held"
    process.kill()
    process.join()
    started = time.monotonic()
    with hold_lock(store.redis, "work", ttl=1.0):
        assert time.monotonic() - started < 5.0
