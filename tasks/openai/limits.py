"""Rate limits: requests and tokens a minute, over all workers, threads and processes.

The generic cell rate algorithm (GCRA) with reservations: a call reserves the next free time in one atomic step on
Redis and sleeps until then.  No call polls, so small calls cannot overtake a large one for ever.  In any minute at most
the limit, the burst and one call pass.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import cast

import redis

from tasks.store.keys import limit_key


class LocalLimiter:
    """For the threads of one process: requests and tokens a minute (0: no limit), in the order of calls."""

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
        """Return when a call of `cost` tokens (prompt and completion) may be sent."""
        shares = [1 / self._requests] if self._requests else []
        shares += [min(max(cost, 1), self._tokens) / self._tokens] if self._tokens else []
        with self._lock:
            now = self._clock()
            start = max(now, self._free)
            self._free = start + 60 * max(shares, default=0.0)
        if start > now:
            self._sleep(start - now)


_RESERVE = """
local clock = redis.call("TIME")
-- Counted from 2025, so that a double keeps microseconds.
local now = (clock[1] - 1735689600) + clock[2] / 1000000
local burst_s = tonumber(ARGV[1])
local wait = 0
for i, key in ipairs(KEYS) do
    local seconds = tonumber(ARGV[1 + i])
    local known = redis.call("GET", key) or ""
    local paid_off, at = string.match(known, "^(%S+) (%S+)$")
    paid_off, at = tonumber(paid_off or now), tonumber(at or now)
    -- A server's clock that was set back must not add to the waiting.
    paid_off = math.max(now, paid_off - math.max(0, at - now))
    wait = math.max(wait, paid_off - burst_s - now)
    paid_off = paid_off + seconds
    redis.call("SET", key, string.format("%.6f %.6f", paid_off, now), "EX", math.ceil(paid_off - now) + 1)
end
return tostring(wait)
"""


class RedisLimiter:
    """The limits over all workers: the state is in Redis or Valkey, with one key a limit for each `name`.

    A key holds the theoretical arrival time, when all admitted calls are paid off, and when that was written.  The
    server's clock is used, so the clocks of the workers may differ; when it is set back, the waiting stays as it was.
    requests and tokens: the limits a minute, 0 for none; burst_s: how many seconds' worth may pass at once.  A call of
    more tokens than a minute has is charged a whole minute.
    """

    def __init__(
        self,
        client: redis.Redis,
        name: str,
        requests: int,
        tokens: int,
        *,
        burst_s: float = 10.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        limits = {"requests": requests, "tokens": tokens}
        self._keys = [limit_key(what, name) for what, a_minute in limits.items() if a_minute]
        self._requests, self._tokens = requests, tokens
        self._burst_s = burst_s
        self._reserve = client.register_script(_RESERVE)
        self._sleep = sleep

    def acquire(self, cost: int) -> None:
        if not self._keys:
            return
        seconds = [60 / self._requests] if self._requests else []
        seconds += [60 * min(max(cost, 1), self._tokens) / self._tokens] if self._tokens else []
        wait = float(cast(bytes, self._reserve(self._keys, [self._burst_s, *seconds])))
        if wait > 0:
            self._sleep(wait)


Limiter = LocalLimiter | RedisLimiter
