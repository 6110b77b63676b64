"""One process at a time holds the lease of a run, on a real Valkey."""

from __future__ import annotations

import dataclasses
import socket
import subprocess

from tasks.common.process import identify
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
