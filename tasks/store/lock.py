"""A lock on a piece of work, held and refreshed while the work runs, so that it is done once.

Celery delivers a task at least once; a redelivered message or a new attempt may run beside the first.  One of them
holds the lock and works; the others wait, and then find the result in the store.  A lock whose holder died expires.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import redis
from redis.exceptions import LockError

from tasks.store.keys import lock_key

TTL_S = 10.0


@contextmanager
def hold_lock(client: redis.Redis, name: str, ttl: float = TTL_S) -> Iterator[None]:
    """Hold the lock called `name` inside the block; wait for it as long as another process or thread holds it."""
    lock = client.lock(lock_key(name), timeout=ttl, sleep=0.05, thread_local=False)
    lock.acquire()
    ended = threading.Event()
    refresher = threading.Thread(target=_refresh, args=(lock, ttl, ended), daemon=True, name=f"lock {name}")
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
            return  # another took it after a long pause: the first result that is written stands, so no harm is done
        except redis.RedisError:
            continue  # the server restarts; the lock is in its append-only file


def _release(lock: redis.lock.Lock) -> None:
    try:
        lock.release()
    except LockError:
        return  # it had expired
