"""Checks of the Redis or Valkey: that it answers, keeps what it is told, and has the time that we have."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import redis

from orchestrator.doctor.finding import Finding, well, wrong
from tasks.redis_url import redacted

SLOW_S = 0.05  # a stage makes some twenty trips
TRIPS = 10
SKEW_S = 1.0  # leases are seconds of the workers' clocks


def check_broker(client: redis.Redis, address: str) -> Iterator[Finding]:
    """Raises: redis.RedisError when it does not answer."""
    seconds = round_trip(client)
    info = client.info()
    name = "Valkey" if "valkey_version" in info else "Redis"
    version = info.get("valkey_version") or info["redis_version"]
    said = f"{name} {version} at {redacted(address)}, {seconds * 1000:.1f} ms a trip"
    if seconds > SLOW_S:
        yield wrong("broker", said, "have the farm and its broker in one network")
    else:
        yield well("broker", said)
    yield from check_keeping(info)


def check_keeping(info: dict[str, Any]) -> Iterator[Finding]:
    """Whether what it is told outlives it, and is never thrown away for want of memory."""
    if not info.get("aof_enabled"):
        yield wrong("kept data", "no append-only file: a restart forgets runs in flight",
                    "start it with --appendonly yes (or CONFIG SET appendonly yes)")  # fmt: skip
    elif info.get("aof_last_write_status", "ok") != "ok":
        yield wrong("kept data", "the append-only file cannot be written", "make room where the server keeps its data")
    else:
        yield well("kept data", "append-only file")
    policy, used = info.get("maxmemory_policy", "noeviction"), int(info["used_memory"])
    limit = int(info.get("maxmemory", 0))
    said = f"{used / 1e6:.0f} MB used of {f'{limit / 1e6:.0f} MB' if limit else 'no limit'}, {policy}"
    if policy != "noeviction":
        yield wrong("memory", said, "CONFIG SET maxmemory-policy noeviction: keys of a run must not vanish")
    elif limit and used > 0.9 * limit:
        yield wrong("memory", said, "raise maxmemory, or `orchestrator runs --delete` what is over")
    else:
        yield well("memory", said)


def round_trip(client: redis.Redis) -> float:
    """Seconds of one trip, the best of several."""
    client.ping()
    best = float("inf")
    for _ in range(TRIPS):
        started = time.perf_counter()
        client.ping()
        best = min(best, time.perf_counter() - started)
    return best


def own_offset(client: redis.Redis) -> float:
    """How many seconds our clock is ahead of the broker's; half a trip is not counted."""
    before = time.time()
    seconds, microseconds = client.time()
    return (before + time.time()) / 2 - seconds - microseconds / 1e6


def check_clock(host: str, offset_s: float) -> Finding:
    """Whether a clock agrees with the broker's."""
    said = f"{host}: {abs(offset_s):.2f} s {'ahead of' if offset_s >= 0 else 'behind'} the broker's"
    if abs(offset_s) <= SKEW_S:
        return well("clock", said)
    return wrong("clock", said, "set both by NTP: messages come back too soon or too late by the difference")
