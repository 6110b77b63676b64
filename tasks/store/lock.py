"""Do a piece of work once, whoever asks for it: a claim on its name, held and refreshed while the work runs.

Celery delivers a task at least once; a redelivered or re-dispatched twin may run beside the first.  Whoever
holds the claim works, the other waits, and then finds the result in the store.  A claim whose holder died
expires by itself.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import redis
from redis.exceptions import LockError

TTL_S = 10.0


@contextmanager
def claim(client: redis.Redis, name: str, ttl: float = TTL_S) -> Iterator[None]:
    """Hold the claim `whetstone:claim:<name>` inside the block, waiting for it as long as another holds it."""
    lock = client.lock(f"whetstone:claim:{name}", timeout=ttl, sleep=0.05, thread_local=False)
    lock.acquire()
    ended = threading.Event()
    refresher = threading.Thread(target=_refresh, args=(lock, ttl, ended), daemon=True, name=f"claim {name}")
    refresher.start()
    try:
        yield
    finally:
        ended.set()
        refresher.join()
        _release(lock)


def _refresh(lock: redis.lock.Lock, ttl: float, ended: threading.Event) -> None:
    while not ended.wait(ttl / 4):
        try:
            lock.reacquire()
        except LockError:
            return  # taken over after a long pause: the result is written with "first one stands", so no harm is done
        except redis.RedisError:
            continue  # the server restarts; the claim is kept on its disk


def _release(lock: redis.lock.Lock) -> None:
    try:
        lock.release()
    except LockError:
        return  # it had expired: there is nothing left to release
