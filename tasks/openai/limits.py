"""What calls may take: requests and tokens a minute for all runs at an endpoint, and the money of one run.

Requests and tokens a minute follow the generic cell rate algorithm (GCRA) with reservations: a call reserves the next
free time in one step on the store and sleeps until then.  No call polls, so small calls cannot overtake a large one for
ever.  In any minute at most the limit, the burst and one call pass.

Of the money, the most that a call can cost is reserved before it; after it the actual cost takes its place.  So calls
in flight at the same time, on any number of workers, never spend more together than the budget.  A call whose worker
died, or whose reply was lost, stays counted at its most: it may have been paid.
"""

from __future__ import annotations

import dataclasses
import math
import os
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import redis

from tasks.common.logs import secret
from tasks.openai.endpoint import BudgetSpent, Usage, cost_usd
from tasks.records import Endpoint
from tasks.store.keys import CALLS, USAGE, content_hash, limit_key, run_key

TOKENS = ("prompt", "cached", "completion", "reasoning")
BURST_S = 10.0  # so many seconds' worth of calls may pass at once
PAUSE_S = 0.2  # between two attempts to reserve money, while other calls hold what this one needs
MARGIN_S = 30.0  # beyond the endpoint's timeout, after which a call without an outcome counts as unconfirmed


@dataclass(frozen=True)
class Spending:
    """US dollars."""

    spent: float  # by answered calls
    in_flight: float  # at most
    unconfirmed: float  # at most, by calls whose cost is unknown


class Limits:
    """What a call passes before and after it, for the threads of one process: calls go one after another."""

    def __init__(
        self,
        endpoint: Endpoint,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._endpoint, self._sleep, self._clock = endpoint, sleep, clock
        self.used, self._lock = Usage(), threading.Lock()
        self._free = -math.inf  # when the next call may begin
        self._in_flight: dict[str, float] = {}
        self._unconfirmed = 0.0

    @property
    def spending(self) -> Spending:
        return Spending(cost_usd(self.used, self._endpoint), sum(self._in_flight.values()), self._unconfirmed)

    def begin(self, most: Usage) -> str:
        """Count a call that uses `most`, and return its id when it may be sent."""
        requests, tokens = self._endpoint.requests_per_minute, self._endpoint.tokens_per_minute
        shares = {"requests": 1 / requests} if requests else {}
        if tokens:
            shares["tokens"] = min(max(most.prompt + most.completion, 1), tokens) / tokens
        wait_s = self._take_turn({name: 60 * share for name, share in shares.items()}) if shares else 0.0
        if wait_s > 0:
            self._sleep(wait_s)
        call, dollars, budget = uuid.uuid4().hex, cost_usd(most, self._endpoint), self._endpoint.budget_usd
        while True:
            fits, spending = self._reserve(call, dollars, budget)
            if fits:
                return call
            if spending.spent + spending.unconfirmed + dollars > budget:
                unconfirmed = f" and up to {spending.unconfirmed:.4f} for calls whose cost is unknown"
                raise BudgetSpent(
                    f"the budget of {budget:g} US dollars is reached: {spending.spent:.4f} are spent"
                    f"{unconfirmed if spending.unconfirmed else ''}, and the next call may take {dollars:.4f}"
                )
            self._sleep(PAUSE_S)

    def settle(self, call: str, model: str, usage: Usage | None) -> None:
        """Replace what was reserved for a call by what it used, counted for `model`; None when that is unknown."""
        with self._lock:
            most = self._in_flight.pop(call, 0.0)
            if usage is None:
                self._unconfirmed += most
            else:
                self.used += dataclasses.replace(usage, requests=0)

    def _take_turn(self, seconds: dict[str, float]) -> float:
        """How long to wait, when a call takes these seconds of the requests and of the tokens."""
        with self._lock:
            now = self._clock()
            start = max(now, self._free)
            self._free = start + max(seconds.values())
        return start - now

    def _reserve(self, call: str, dollars: float, budget: float) -> tuple[bool, Spending]:
        """Set money aside unless the budget (0 is none) forbids it: whether it fits, and the spending without it."""
        with self._lock:
            spending = self.spending
            fits = not budget or spending.spent + spending.in_flight + spending.unconfirmed + dollars <= budget
            if fits:
                self._in_flight[call] = dollars
                self.used += Usage(requests=1)
        return fits, spending


# A limit's key holds when all admitted calls are paid off, and when that was written.  The server's clock is used, so
# the clocks of the workers may differ; when it is set back, the waiting stays as it was.
_TAKE_TURN = """
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
# KEYS of all below: the run's counters of what answered calls used, and its calls that are begun and not settled, each
# with the most that it can cost and until when it is in flight.  These are few, so each script may look at all of them.
# Every change can be sent twice and happens once: the call's id is the field.
_SPENDING = """
local clock = redis.call("TIME")
local now = clock[1] + clock[2] / 1000000
local spent = tonumber(redis.call("HGET", KEYS[1], "cost_usd") or 0)
local in_flight, unconfirmed = 0, 0
for _, text in ipairs(redis.call("HVALS", KEYS[2])) do
    local call = cjson.decode(text)
    if call[2] > now then in_flight = in_flight + call[1] else unconfirmed = unconfirmed + call[1] end
end
local fits = 1
"""
_REPLY = 'return {fits, string.format("%.17g %.17g %.17g", spent, in_flight, unconfirmed)}'
# A trillionth of a dollar is the dust of adding floats up.
_RESERVE = """
local most, budget, life = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
if redis.call("HEXISTS", KEYS[2], ARGV[1]) == 0 then
    if budget > 0 and spent + in_flight + unconfirmed + most > budget + 1e-12 then
        fits = 0
    else
        redis.call("HSET", KEYS[2], ARGV[1], cjson.encode({most, now + life}))
        redis.call("HINCRBYFLOAT", KEYS[1], "requests", 1)
    end
end
"""
_SETTLE = """
if redis.call("HDEL", KEYS[2], ARGV[1]) == 0 then return 0 end
for i = 2, #ARGV, 2 do redis.call("HINCRBYFLOAT", KEYS[1], ARGV[i], ARGV[i + 1]) end
return 1
"""
# All such calls have one field: a server without usage makes one of every call.
_MARK_UNCONFIRMED = """
local text = redis.call("HGET", KEYS[2], ARGV[1])
if not text then return 0 end
local known = redis.call("HGET", KEYS[2], "unconfirmed")
local most = cjson.decode(text)[1] + (known and cjson.decode(known)[1] or 0)
redis.call("HDEL", KEYS[2], ARGV[1])
redis.call("HSET", KEYS[2], "unconfirmed", cjson.encode({most, 0}))
return 1
"""


class RunLimits(Limits):
    """Those of a run over all workers, in the store; those a minute are of all calls to one address with one key."""

    def __init__(
        self, client: redis.Redis, run_id: str, endpoint: Endpoint, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        super().__init__(endpoint, sleep)
        self._redis, self._run_id = client, run_id

    def settle(self, call: str, model: str, usage: Usage | None) -> None:
        if usage is None:
            _run(self._redis, self._run_id, _MARK_UNCONFIRMED, call)
            return
        counts: dict[str, float] = {kind: count for kind in TOKENS if (count := getattr(usage, kind))}
        counts |= {f"{kind}@{model}": count for kind, count in counts.items()}
        counts["cost_usd"] = cost_usd(usage, self._endpoint)
        parts = (part for name, count in counts.items() for part in (name, repr(count)))
        _run(self._redis, self._run_id, _SETTLE, call, *parts)

    def _take_turn(self, seconds: dict[str, float]) -> float:
        address = self._endpoint.base_url or os.environ.get("OPENAI_BASE_URL", "")
        name = content_hash(address, secret(self._endpoint.api_key_env))[:16]
        names = [limit_key(what, name) for what in seconds]
        wait = self._redis.register_script(_TAKE_TURN)(names, [BURST_S, *seconds.values()])
        return float(cast(bytes, wait))

    def _reserve(self, call: str, dollars: float, budget: float) -> tuple[bool, Spending]:
        asked = call, repr(dollars), repr(budget), repr(self._endpoint.timeout_s + MARGIN_S)
        fits, spending = _run(self._redis, self._run_id, _SPENDING + _RESERVE + _REPLY, *asked)
        return bool(fits), _read_spending(spending)


def spending_of(client: redis.Redis, run_id: str) -> Spending:
    """What the run has spent, and what its calls may still cost."""
    _, spending = _run(client, run_id, _SPENDING + _REPLY)
    return _read_spending(spending)


def _run(client: redis.Redis, run_id: str, script: str, *arguments: str) -> Any:
    return client.register_script(script)([run_key(run_id, USAGE), run_key(run_id, CALLS)], arguments)


def _read_spending(figures: bytes) -> Spending:
    return Spending(*map(float, figures.split()))
