"""One process at a time holds the lease of a run, or a lock, on a real Valkey."""

from __future__ import annotations

import dataclasses
import multiprocessing
import socket
import subprocess
import threading
import time
from multiprocessing.connection import Connection

from tasks.common.process import identify
from tasks.store.address import store_url
from tasks.store.client import connect, hold_lock
from tasks.store.ownership import Owner, RunLease, read_lease
from tasks.store.store import Store


def make_lease(store: Store, owner: Owner | None = None) -> RunLease:
    return RunLease(store.redis, "run", owner or Owner.here("/outputs/run"))


def test_a_lease_is_held_by_one_process_until_it_gives_it_up(store: Store) -> None:
    first, second = make_lease(store), make_lease(store)
    assert first.take() and first.take()  # a reply that was lost: it is asked again
    assert (second.take(), second.renew()) == (False, False)
    held = read_lease(store.redis, "run")
    assert held is not None and held.owner == first.owner
    second.release()  # not its own: nothing happens
    assert first.renew()
    first.release()
    assert read_lease(store.redis, "run") is None
    assert second.take()
    assert not first.renew()


def test_of_several_that_replace_an_owner_one_succeeds(store: Store) -> None:
    first, second, third = make_lease(store), make_lease(store), make_lease(store)
    assert first.take()
    held = first.held()
    assert second.take(replaced=held) and not third.take(replaced=held)
    assert not first.renew()
    # And one that does not know it gives up nothing of the other's
    first.release()
    assert second.renew()


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
