"""Requests and tokens a minute that hold across all workers, threads and processes.

The generic cell rate algorithm (GCRA), with reservations: whoever asks gets the next place in line at once, in one
atomic step on Redis, and sleeps until its time.  Nobody has to find the bucket full and nobody asks twice, so a
large call cannot be overtaken for ever by small ones.  In any minute at most the limit, the burst and one call pass.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

from throttled.constants import ATOMIC_ACTION_TYPE_LIMIT
from throttled.rate_limiter import per_min
from throttled.rate_limiter.gcra import GCRARateLimiter
from throttled.store import BaseRedisAtomicAction, RedisStore, RedisStoreBackend


class Limiter(Protocol):
    """Whoever calls the endpoint asks here first, before every try."""

    def acquire(self, cost: int) -> None:
        """Return when a call of `cost` tokens (prompt and completion) may be sent. Blocks as long as it takes."""


class NoLimit:
    """For an endpoint that takes whatever comes."""

    def acquire(self, cost: int) -> None:
        return


class LocalLimiter:
    """A `Limiter` for the threads of one process: requests and tokens a minute, 0 for none, in the order of asking."""

    def __init__(
        self,
        requests: int,
        tokens: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._requests, self._tokens = requests, tokens
        self._clock, self._sleep = clock, sleep
        self._lock = threading.Lock()
        self._free = -math.inf  # when the next call may begin

    def acquire(self, cost: int) -> None:
        shares = [1 / self._requests] if self._requests else []
        shares += [min(max(cost, 1), self._tokens) / self._tokens] if self._tokens else []
        with self._lock:
            now = self._clock()
            start = max(now, self._free)
            self._free = start + 60 * max(shares, default=0.0)
        if start > now:
            self._sleep(start - now)


class RedisLimiter:
    """A `Limiter` whose state is in Redis or Valkey, under `whetstone:limit:`; one key for each `name`.

    url: redis://, rediss:// or unix:// with ?db=; requests and tokens: the limits a minute, 0 for none; burst_s: how
    many seconds' worth may pass at once.  A call of more tokens than a minute has is charged a whole minute.
    Raises: throttled.exceptions.StoreUnavailableError where Redis does not answer.
    """

    def __init__(
        self,
        url: str,
        name: str,
        requests: int,
        tokens: int,
        *,
        burst_s: float = 10.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        store = RedisStore(server=url)
        self._name = name
        self._tokens_a_minute = tokens
        self._requests = _line(store, "requests", requests, burst_s)
        self._tokens = _line(store, "tokens", tokens, burst_s)
        self._sleep = sleep

    def acquire(self, cost: int) -> None:
        waits = [0.0]
        if self._requests is not None:
            waits.append(_reserve(self._requests, self._name, 1))
        if self._tokens is not None:
            waits.append(_reserve(self._tokens, self._name, min(max(cost, 1), self._tokens_a_minute)))
        if max(waits) > 0:
            self._sleep(max(waits))


class _Reserve(BaseRedisAtomicAction):
    """Take the next place in line. Returns like throttled's own action; `retry_after` is how long to wait.

    The key holds the theoretical arrival time: when all that was let through is paid off.  The server's clock
    counts, so the clocks of the workers may differ.
    """

    TYPE = ATOMIC_ACTION_TYPE_LIMIT
    SCRIPT = """
    local seconds_each = tonumber(ARGV[1])
    local burst = tonumber(ARGV[2])
    local cost = tonumber(ARGV[3])
    local clock = redis.call("TIME")
    -- Counted from 2025, so that a double keeps microseconds.
    local now = (clock[1] - 1735689600) + clock[2] / 1000000
    local paid_off = math.max(now, tonumber(redis.call("GET", KEYS[1]) or now))
    local wait = math.max(0, paid_off - burst * seconds_each - now)
    paid_off = paid_off + cost * seconds_each
    redis.call("SET", KEYS[1], string.format("%.6f", paid_off), "EX", math.ceil(paid_off - now) + 1)
    return {tostring(paid_off - now), tostring(wait)}
    """

    def __init__(self, backend: RedisStoreBackend) -> None:
        super().__init__(backend)
        self._script = self._register_script(self.SCRIPT)

    def do(self, keys: Sequence[str], args: Sequence[Any] | None) -> tuple[int, int, float, float]:
        reset_after, wait = cast("tuple[str, str]", self._script(keys, args))
        return 0, 0, float(reset_after), float(wait)


def _line(store: RedisStore, what: str, a_minute: int, burst_s: float) -> GCRARateLimiter | None:
    if a_minute <= 0:
        return None
    quota = per_min(a_minute, burst=int(a_minute * burst_s / 60))
    return GCRARateLimiter(quota, store, [_Reserve], key_prefix=f"whetstone:limit:{what}")


def _reserve(line: GCRARateLimiter, name: str, cost: int) -> float:
    return line.limit(name, cost).state.retry_after
