"""One process at a time works on a run: it holds the run's lease in the store, beside the lock of its output folder.

The lock keeps two processes out of one folder.  The lease, under the run's id, also keeps out a second folder with the
same run, and a machine that does not see the lock.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import redis

from orchestrator.farm import FarmUnavailable
from orchestrator.farm.connection import FarmConnection
from orchestrator.runs.folder import RunInUse
from tasks.store.client import RunTaken
from tasks.store.ownership import Held, Owner, RunLease

log = logging.getLogger(__name__)
RENEW_S = 5.0
LEASE_S = 30.0  # without a renewal, before the lease of a process that is not visible from here is taken
POLL_S = 0.25

Notify = Callable[[str], None]


@contextmanager
def owned(farm: FarmConnection, run_id: str, folder: Path, notify: Notify) -> Iterator[FarmConnection]:
    """The farm, for the process that works on the run now: this one, until the block ends.

    What it writes in the run's name is refused from when on another process has taken the run over.
    """
    lease = RunLease(farm.store.redis, run_id, Owner.here(str(folder.resolve())))
    _take(lease, folder, notify)
    ended, lost = threading.Event(), threading.Event()
    threading.Thread(target=_renew, args=(lease, ended, lost), daemon=True, name=f"lease of {run_id}").start()

    def check() -> None:
        farm.check()
        if lost.is_set():
            held = lease.held()
            how = f"was taken over by {held}" if held else "was deleted from its farm, which has lost it"
            raise RunTaken(f"run {run_id} {how}")

    is_store_lost = False
    try:
        yield dataclasses.replace(farm, store=farm.store.of_owner(lease.owner.to_json()), check=check)
    except (redis.RedisError, FarmUnavailable):
        is_store_lost = True  # it would only be waited for once more; the next start sees that this process has ended
        raise
    finally:
        ended.set()
        if not is_store_lost:
            with suppress(redis.RedisError):
                lease.release()


def _take(lease: RunLease, folder: Path, notify: Notify) -> None:
    while not lease.take():
        held = lease.held()
        if held is None:
            continue
        if held.owner.is_visible:
            if not held.owner.has_ended():
                raise RunInUse(folder, str(held))
        elif not _has_fallen_silent(lease, held, folder, notify):
            continue
        if lease.take(replaced=held):
            log.info("the run is taken over from %s, which has ended", held)
            return


def _has_fallen_silent(lease: RunLease, held: Held, folder: Path, notify: Notify) -> bool:
    """Whether an owner that is not visible from here no longer renews its lease; False when it has given it up."""
    notify(f"{held} worked on this run and is not visible from here; waiting {LEASE_S:g} s whether it renews its lease")
    until = time.monotonic() + LEASE_S
    while time.monotonic() < until:
        time.sleep(POLL_S)  # nothing but time tells whether an owner on another machine still renews
        now = lease.held()
        if now is None:
            return False
        if now != held:
            raise RunInUse(folder, str(now))
    return True


def _renew(lease: RunLease, ended: threading.Event, lost: threading.Event) -> None:
    while not ended.wait(RENEW_S):
        with suppress(redis.RedisError, FarmUnavailable):  # the server is away for a while: it is tried again
            if not lease.renew() and not ended.is_set():
                lost.set()
                return
