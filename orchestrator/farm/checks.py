"""Checks of what a farm needs: Redis or Valkey, clocks, disks, the GPUs of this machine, the endpoint.

Listing the models of an endpoint costs nothing.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import redis

from orchestrator.farm.embedded import is_healthy
from orchestrator.farm.workers import start_hint
from orchestrator.settings.options import Settings
from tasks.common.files import unix_path
from tasks.common.logs import redacted, secret
from tasks.common.text import escape_control
from tasks.common.validation import MODELS_BYTES
from tasks.openai.endpoint import api_path
from tasks.queues import QUEUES
from tasks.store.address import store_url
from tasks.store.client import NO_WAITING, connect, refusal_of
from tasks.store.workers import WorkerRegistry, code_version
from workers.sglang.gpus import GpuUnavailable, available_gpus


@dataclass(frozen=True)
class Finding:
    """One line: what was checked, whether it is good, what was found, and a hint how to correct it when it is not."""

    check: str
    ok: bool
    message: str
    hint: str = ""


def passed_check(check: str, message: str) -> Finding:
    return Finding(check, True, message)


def failed_check(check: str, message: str, hint: str) -> Finding:
    return Finding(check, False, message, hint)


Report = Mapping[str, Any]
"""What a worker says of itself (workers/celery_ext/report.py)."""
GIGABYTE = 1e9
LEAST_FREE = 1 * GIGABYTE  # bytes; a run writes megabytes, a full disk ends Valkey's append-only file


def check_disk(check: str, free: float) -> Finding:
    """`free` in bytes."""
    said = f"{free / GIGABYTE:.1f} GB free"
    if free >= LEAST_FREE:
        return passed_check(check, said)
    return failed_check(check, said, f"make room: at least {LEAST_FREE / GIGABYTE:.0f} GB")


SLOW_S = 0.05  # a stage makes some twenty trips
TRIPS = 10
SKEW_S = 1.0  # leases are seconds of the workers' clocks


def check_broker(client: redis.Redis, address: str) -> Iterator[Finding]:
    seconds = round_trip(client)
    info = client.info()
    name = "Valkey" if "valkey_version" in info else "Redis"
    version = info.get("valkey_version") or info["redis_version"]
    said = f"{name} {version} at {redacted(address)}, {seconds * 1000:.1f} ms a trip"
    if seconds > SLOW_S:
        yield failed_check("broker", said, "have the farm and its broker in one network")
    else:
        yield passed_check("broker", said)
    yield check_writes(address)
    yield from check_persistence(info)


def check_writes(address: str) -> Finding:
    """Whether the store accepts a write: it refuses as a read-only replica, and for want of memory or disk."""
    try:
        with connect(store_url(address), NO_WAITING) as client:
            WorkerRegistry(client).check_writes()
    except redis.RedisError as error:
        if (reason := refusal_of(error)) is None:
            raise
        hint = "make room for it; a replica: name the primary's address. Runs wait, and then park"
        return failed_check("writes", f"the store {reason}", hint)
    return passed_check("writes", "accepted")


def check_persistence(info: dict[str, Any]) -> Iterator[Finding]:
    """Whether its data survive a restart, and are never evicted for want of memory."""
    if not info.get("aof_enabled"):
        yield failed_check(
            "kept data",
            "no append-only file: a restart forgets runs in flight",
            "start it with --appendonly yes (or CONFIG SET appendonly yes)",
        )
    elif info.get("aof_last_write_status", "ok") != "ok":
        yield failed_check(
            "kept data", "the append-only file cannot be written", "make room where the server keeps its data"
        )
    else:
        yield passed_check("kept data", "append-only file")
    policy, used = info.get("maxmemory_policy", "noeviction"), int(info["used_memory"])
    limit = int(info.get("maxmemory", 0))
    said = f"{used / 1e6:.0f} MB used of {f'{limit / 1e6:.0f} MB' if limit else 'no limit'}, {policy}"
    if policy != "noeviction":  # locks, leases and counters expire too, and would be evicted like results
        yield failed_check("memory", said, "CONFIG SET maxmemory-policy noeviction: locks and leases must not vanish")
    elif not limit:
        yield failed_check("memory", said, "CONFIG SET maxmemory: without a limit it takes the memory of the workers")
    elif used > 0.9 * limit:
        yield failed_check("memory", said, "`orchestrator gc` shows what can be removed; or raise maxmemory")
    else:
        yield passed_check("memory", said)


def round_trip(client: redis.Redis) -> float:
    """Seconds of one trip, the best of several."""
    client.ping()
    best = float("inf")
    for _ in range(TRIPS):
        started = time.perf_counter()
        client.ping()
        best = min(best, time.perf_counter() - started)
    return best


def clock_offset(client: redis.Redis) -> float:
    """How many seconds our clock is ahead of the broker's; half a trip is not counted."""
    before = time.time()
    seconds, microseconds = client.time()
    return (before + time.time()) / 2 - seconds - microseconds / 1e6


def check_clock(host: str, offset_s: float) -> Finding:
    """Whether a clock agrees with the broker's."""
    said = f"{host}: {abs(offset_s):.2f} s {'ahead of' if offset_s >= 0 else 'behind'} the broker's"
    if abs(offset_s) <= SKEW_S:
        return passed_check("clock", said)
    return failed_check("clock", said, "set both by NTP: messages come back too soon or too late by the difference")


HINT = 'see what `nvidia-smi` says; or CONFIG_DEVICE="cpu", or an external CONFIG_FARM with a worker where a GPU is'


def check_gpus_here() -> Finding:
    """The GPUs of this machine, and how full each is."""
    try:
        gpus = [(gpu, *gpu.memory()) for gpu in available_gpus()]
    except GpuUnavailable as error:
        return failed_check("GPUs here", str(error), HINT)
    said = (f"{gpu.index} {gpu.name}, {used / 1e9:.1f} of {total / 1e9:.1f} GB used" for gpu, used, total in gpus)
    return passed_check("GPUs here", "; ".join(said))


OPENAI = "https://api.openai.com/v1"
TIMEOUT_S = 10.0
LOOPBACK = ("127.0.0.1", "localhost", "::1")


def check_endpoints(reports: Sequence[Report], settings: Settings | None) -> Iterator[Finding]:
    """A line for each address that an openai worker would call, as far as it means the same here."""
    key_name = settings.openai_api_key_env if settings else "OPENAI_API_KEY"
    seen: set[str] = set()
    for report in reports:
        if (endpoint := report.get("endpoint")) is None:
            continue
        address = (settings and settings.openai_base_url) or endpoint["base_url"] or OPENAI
        if not endpoint["key"]:
            yield failed_check(
                f"key of {report['worker']}",
                f"none, for {redacted(address)}",
                f"set {key_name} or {key_name}_FILE in the worker's environment",
            )
            continue
        yield passed_check(f"key of {report['worker']}", f"there is one, for {redacted(address)}")
        is_here = report["host"] == socket.gethostname()
        if (is_here or _is_known_here(address)) and address not in seen:
            seen.add(address)
            yield check_endpoint(address, secret(key_name))


def _is_known_here(address: str) -> bool:
    """Whether the address of a worker elsewhere is not one of its machine, or a name in its network of containers."""
    host = urlsplit(address).hostname or ""
    if unix_path(address) is not None or host in LOOPBACK:
        return False
    if "." in host or ":" in host:
        return True
    try:
        socket.getaddrinfo(host, None)
    except OSError:
        return False
    return True


def check_endpoint(address: str, key: str) -> Finding:
    """Whether the endpoint lists its models; `key` is ours, or "" where only the workers have one."""
    # Here, since the client takes 0.1 s to import.
    import httpx2

    from tasks.common.http import fetch, redirect_of

    try:
        reply = fetch(address, api_path(address, "/models"), TIMEOUT_S, key=key, most=MODELS_BYTES)
        status = reply.status_code
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        said = f"{redacted(address)} does not answer: {escape_control(str(error))}"
        return failed_check(
            "endpoint", said, "see the address (CONFIG_OPENAI_BASE_URL, OPENAI_BASE_URL), and the network"
        )
    if location := redirect_of(reply):
        said = f"{redacted(address)} redirects to {location}, which is not followed"
        return failed_check("endpoint", said, "set CONFIG_OPENAI_BASE_URL to the address that answers itself")
    if status in (401, 403) and key:
        return failed_check(
            "endpoint", f"{redacted(address)} refuses the key (HTTP {status})", "set a key that it takes"
        )
    if status >= 500:
        return failed_check("endpoint", f"{redacted(address)} answers HTTP {status}", "wait, or ask its operator")
    return passed_check("endpoint", f"{redacted(address)} answers")


def check_queue(queue: str, reports: Sequence[Report], waiting: int, paused: Mapping[str, float]) -> Finding:
    """Whether a queue has a worker that takes its messages."""
    here = [report for report in reports if report["queue"] == queue]
    states = [str(report.get("state")) for report in here]
    counted = ", ".join(f"{states.count(state)} {state}" for state in sorted(set(states))) or "none"
    said, check = f"{counted}; {waiting} waiting", f"workers of {queue}"
    if "ready" in states:
        return passed_check(check, said)
    if queue in paused or "paused" in states:
        named = queue if queue in paused else "WORKER"
        return failed_check(check, said, f"orchestrator workers --resume {named}")
    if "refusing" in states:
        why = next(str(report.get("why")) for report in here if report.get("state") == "refusing")
        return failed_check(check, f"{said}: {why}", "see its reason")
    if here:
        return failed_check(check, said, "see its log; it takes no messages now")
    return failed_check(check, said, start_hint(queue))


def check_versions(reports: Sequence[Report]) -> Finding:
    """Whether all have the code that we have."""
    others = {
        str(report["worker"]): str(report["version"]) for report in reports if report["version"] != code_version()
    }
    if not others:
        return passed_check("code", f"{code_version()}, here and on {len(reports)} workers")
    listed = ", ".join(f"{worker} has {version}" for worker, version in sorted(others.items()))
    return failed_check(
        "code", f"{code_version()} here, but {listed}", "install the same Whetstone there, and restart them"
    )


def check_targets(reports: Sequence[Report], settings: Settings | None) -> Iterator[Finding]:
    """Whether target servers are healthy, and workers have GPUs where a run needs them."""
    gpu_workers = [report for report in reports if report["queue"] == "gpu"]
    servers = [report for report in gpu_workers if (report.get("target") or {}).get("url")]
    if settings is not None and settings.sglang_url:
        yield _server("target server", settings.sglang_url)
    elif not servers:
        yield passed_check("target server", "none has been started yet: the first task that wants one does")
    for report in servers:
        target = report["target"]
        said = f"{target['model']} on {target['engine']} {target.get('version') or ''}".rstrip()
        said += f", {target['in_flight']} in flight, {target['tokens_a_second']} tokens/s"
        yield passed_check(f"target of {report['worker']}", said)
    wants_gpu = settings is not None and settings.device == "cuda" and not settings.sglang_url
    for report in gpu_workers:
        gpu = (report.get("target") or {}).get("gpu")
        if gpu:
            said = f"{gpu['index']} {gpu['name']}, {gpu['used'] / 1e9:.1f} of {gpu['total'] / 1e9:.1f} GB used"
            yield passed_check(f"GPU of {report['worker']}", said)
        elif wants_gpu and servers:
            yield failed_check(
                f"GPU of {report['worker']}", "none", "start it where `nvidia-smi` shows a GPU, with --gpu N"
            )


def check_hosts(reports: Sequence[Report]) -> Iterator[Finding]:
    """The clock and the disk of each host, by the first of its workers."""
    seen: set[str] = set()
    for report in reports:
        if report["host"] in seen:
            continue
        seen.add(report["host"])
        if "clock_offset_s" in report:
            yield check_clock(str(report["host"]), float(report["clock_offset_s"]))
        yield check_disk(f"disk of {report['host']}", float(report["disk_free"]))


def check_all(
    reports: Sequence[Report], waiting: Mapping[str, int], paused: Mapping[str, float], settings: Settings | None
) -> Iterator[Finding]:
    """All of the above, in the order in which one would look."""
    for queue in QUEUES:
        yield check_queue(queue, reports, waiting.get(queue, 0), paused)
    for name in sorted(set(paused) - set(QUEUES)):
        yield failed_check(f"worker {name}", "paused", f"orchestrator workers --resume {name}")
    if reports:
        yield check_versions(reports)
        yield from check_targets(reports, settings)
        yield from check_endpoints(reports, settings)
        yield from check_hosts(reports)


def _server(check: str, url: str) -> Finding:
    if is_healthy(url, 30.0):
        return passed_check(check, f"{url} answers /health")
    return failed_check(
        check, f"{url} does not answer /health", "start it, or empty CONFIG_SGLANG_URL to have one started"
    )
