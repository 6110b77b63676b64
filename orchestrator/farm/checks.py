"""Checks of what a farm needs: Redis or Valkey, clocks, disks, the GPUs of this machine, the endpoint.

Listing the models of an endpoint costs nothing.
"""

from __future__ import annotations

import socket
import time
import timeit
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import redis

from orchestrator.farm.workers import start_hint
from orchestrator.settings.options import Settings
from tasks.common.files import unix_path
from tasks.common.logs import redacted, secret
from tasks.common.text import escape_control
from tasks.common.validation import MODELS_BYTES
from tasks.openai.endpoint import DEFAULT_BASE_URL, api_path
from tasks.queues import QUEUES
from tasks.store.address import store_url
from tasks.store.client import NO_WAITING, connect, refusal_of
from tasks.store.workers import WorkerRegistry, code_version
from workers.processes import is_healthy
from workers.sglang.gpus import GpuUnavailable, available_gpus

Report = Mapping[str, Any]
"""What a worker says of itself (workers/celery_ext/report.py)."""
LEAST_FREE = 1e9  # bytes; a run writes megabytes, a full disk ends Valkey's append-only file
SLOW_S = 0.05  # a stage makes some twenty trips
TRIPS = 10
SKEW_S = 1.0  # leases are seconds of the workers' clocks
TIMEOUT_S = 10.0
LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Finding:
    """One line: what was checked and what was found, perhaps as a mere note; a hint where that must be corrected."""

    check: str
    message: str
    hint: str = ""
    note: bool = False

    @property
    def ok(self) -> bool:
        return not self.hint


def check_disk(check: str, free: float) -> Finding:
    """`free` in bytes."""
    hint = f"make room: at least {LEAST_FREE / 1e9:.0f} GB" if free < LEAST_FREE else ""
    return Finding(check, f"{free / 1e9:.1f} GB free", hint)


def check_broker(client: redis.Redis, address: str) -> Iterator[Finding]:
    seconds, info = min(timeit.repeat(client.ping, number=1, repeat=TRIPS)), client.info()
    name = "Valkey" if "valkey_version" in info else "Redis"
    version = info.get("valkey_version") or info["redis_version"]
    said = f"{name} {version} at {redacted(address)}, {seconds * 1000:.1f} ms a trip"
    yield Finding("broker", said, "have the farm and its broker in one network" if seconds > SLOW_S else "")
    yield check_writes(address)
    yield from check_persistence(info)
    # How far our clock is ahead of the broker's; half a trip is not counted.
    before = time.time()
    whole, microseconds = client.time()
    yield check_clock("here", (before + time.time()) / 2 - whole - microseconds / 1e6)


def check_writes(address: str) -> Finding:
    """Whether the store accepts a write: it refuses as a read-only replica, and for want of memory or disk."""
    try:
        with connect(store_url(address), NO_WAITING) as client:
            WorkerRegistry(client).check_writes()
    except redis.RedisError as error:
        if (reason := refusal_of(error)) is None:
            raise
        hint = "make room for it; a replica: name the primary's address. Runs wait, and then park"
        return Finding("writes", f"the store {reason}", hint)
    return Finding("writes", "accepted")


def check_persistence(info: dict[str, Any]) -> Iterator[Finding]:
    """Whether its data survive a restart, and are never evicted for want of memory."""
    if not info.get("aof_enabled"):
        said = "no append-only file: a restart forgets runs in flight"
        yield Finding("kept data", said, "start it with --appendonly yes (or CONFIG SET appendonly yes)")
    elif info.get("aof_last_write_status", "ok") != "ok":
        said = "the append-only file cannot be written"
        yield Finding("kept data", said, "make room where the server keeps its data")
    else:
        yield Finding("kept data", "append-only file")
    policy, used = info.get("maxmemory_policy", "noeviction"), int(info["used_memory"])
    limit, hint = int(info.get("maxmemory", 0)), ""
    if policy != "noeviction":  # locks, leases and counters expire too, and would be evicted like results
        hint = "CONFIG SET maxmemory-policy noeviction: locks and leases must not vanish"
    elif not limit:
        hint = "CONFIG SET maxmemory: without a limit it takes the memory of the workers"
    elif used > 0.9 * limit:
        hint = "`orchestrator farm gc` shows what can be removed; or raise maxmemory"
    of = f"{limit / 1e6:.0f} MB" if limit else "no limit"
    yield Finding("memory", f"{used / 1e6:.0f} MB used of {of}, {policy}", hint)


def check_clock(host: str, offset_s: float) -> Finding:
    """Whether a clock agrees with the broker's."""
    said = f"{host}: {abs(offset_s):.2f} s {'ahead of' if offset_s >= 0 else 'behind'} the broker's"
    hint = "set both by NTP: messages come back too soon or too late by the difference"
    return Finding("clock", said, hint if abs(offset_s) > SKEW_S else "")


def check_gpus_here() -> Finding:
    """The GPUs of this machine, and how full each is."""
    try:
        gpus = [gpu.describe() for gpu in available_gpus()]
    except GpuUnavailable as error:
        what = "see what `nvidia-smi` says; or"
        hint = f'{what} CONFIG_DEVICE="cpu", or an external CONFIG_FARM with a worker where a GPU is'
        return Finding("GPUs here", str(error), hint)
    said = (f"{g['index']} {g['name']}, {g['used'] / 1e9:.1f} of {g['total'] / 1e9:.1f} GB used" for g in gpus)
    return Finding("GPUs here", "; ".join(said))


def check_endpoints(reports: Sequence[Report], settings: Settings | None) -> Iterator[Finding]:
    """A line for each address that an openai worker would call, as far as it means the same here."""
    key_name = settings.openai_api_key_env if settings else "OPENAI_API_KEY"
    seen: set[str] = set()
    for report in reports:
        if (endpoint := report.get("endpoint")) is None:
            continue
        address = (settings and settings.openai_base_url) or endpoint["base_url"] or DEFAULT_BASE_URL
        check, is_there = f"key of {report['worker']}", "there is one" if endpoint["key"] else "none"
        hint = "" if endpoint["key"] else f"set {key_name} or {key_name}_FILE in the worker's environment"
        yield Finding(check, f"{is_there}, for {redacted(address)}", hint)
        is_here = report["host"] == socket.gethostname()
        if endpoint["key"] and address not in seen and (is_here or _is_known_here(address)):
            seen.add(address)
            yield check_endpoint(address, secret(key_name))


def _is_known_here(address: str) -> bool:
    """Whether the address of a worker elsewhere is not one of its machine, or a name in its network of containers."""
    host = urlsplit(address).hostname or ""
    if unix_path(address) is not None or host in LOOPBACK:
        return False
    with suppress(OSError):
        return bool(socket.getaddrinfo(host, None))
    return "." in host or ":" in host


def check_endpoint(address: str, key: str) -> Finding:
    """Whether the endpoint lists its models; `key` is ours, or "" where only the workers have one."""
    # Here, since the client takes 0.1 s to import.
    import httpx2

    from tasks.common.http import fetch, redirect_of

    shown = redacted(address)
    try:
        reply = fetch(address, api_path(address, "/models"), TIMEOUT_S, key=key, most=MODELS_BYTES)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        said = f"{shown} does not answer: {escape_control(str(error))}"
        return Finding("endpoint", said, "see the address (CONFIG_OPENAI_BASE_URL, OPENAI_BASE_URL), and the network")
    status = reply.status_code
    if location := redirect_of(reply):
        said = f"{shown} redirects to {location}, which is not followed"
        return Finding("endpoint", said, "set CONFIG_OPENAI_BASE_URL to the address that answers itself")
    if status in (401, 403) and key:
        return Finding("endpoint", f"{shown} refuses the key (HTTP {status})", "set a key that it takes")
    if status >= 500:
        return Finding("endpoint", f"{shown} answers HTTP {status}", "wait, or ask its operator")
    if status == 404 and "/v1" not in address and "?" not in address:
        return Finding("endpoint", f"{shown} knows no /models (HTTP 404)", "most addresses end with /v1")
    return Finding("endpoint", f"{shown} answers")


def weight_bytes(folder: Path) -> int:
    """Bytes of a model's weights in a folder.  Raises: ValueError when it lacks them, or its configuration."""
    size = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    if not (size and (folder / "config.json").is_file()):
        raise ValueError(f"{folder} holds no model (config.json and *.safetensors)")
    return size


def check_template(model: str) -> Iterator[Finding]:
    """Whether a model's chat template can be used, and how; nothing where its tokenizer is not on this machine."""
    from tasks.gpu.model_files import model_files

    folder = model_files(model)
    if not folder or not (Path(model).is_dir() or (Path(folder) / "tokenizer_config.json").is_file()):
        return
    try:
        from tasks.gpu.prompt import load_tokenizer, render_chat, template_notes

        tokenizer = load_tokenizer(folder)
    except ImportError:
        return
    except Exception as error:  # whatever transformers, and the library in Rust below it, raises for a broken file
        yield Finding("tokenizer", f"{model}'s cannot be read: {_reason(error)}", "download or save it again")
        return
    try:
        render_chat(tokenizer, "", "a question")
        notes = template_notes(tokenizer)
    except Exception as error:  # a template is a program
        hint = "mend the template, or use another, instruction-tuned model"
        yield Finding("chat template", f"{model}'s cannot be used: {_reason(error)}", hint)
        return
    yield Finding("chat template", "; ".join(notes) or "takes a system message")


def _reason(error: Exception) -> str:
    first = (str(error).splitlines() or [""])[0]
    return escape_control(f"{type(error).__name__}: {first}")


def check_queue(queue: str, reports: Sequence[Report], waiting: int, paused: Mapping[str, float]) -> Finding:
    """Whether a queue has a worker that takes its messages."""
    here = [report for report in reports if report["queue"] == queue]
    states = [str(report.get("state")) for report in here]
    counted = ", ".join(f"{states.count(state)} {state}" for state in sorted(set(states))) or "none"
    said, hint = f"{counted}; {waiting} waiting", "see its log; it takes no messages now"
    if "ready" in states:
        hint = ""
    elif queue in paused or "paused" in states:
        hint = f"orchestrator farm workers --resume {queue if queue in paused else 'WORKER'}"
    elif "refusing" in states:
        said += f": {next(str(report.get('why')) for report in here if report.get('state') == 'refusing')}"
        hint = "see its reason"
    elif not here:
        hint = start_hint(queue)
    return Finding(f"workers of {queue}", said, hint)


def check_versions(reports: Sequence[Report]) -> Finding:
    """Whether all have the code that we have."""
    here = code_version()
    others = sorted(f"{one['worker']} has {one['version']}" for one in reports if one["version"] != here)
    if not others:
        return Finding("code", f"{here}, here and on {len(reports)} workers")
    said = f"{here} here, but {', '.join(others)}"
    return Finding("code", said, "install the same Whetstone there, and restart them")


def check_targets(reports: Sequence[Report], settings: Settings) -> Iterator[Finding]:
    """Whether a target server that the settings name is healthy, and the workers that serve have the GPUs they need."""
    if url := settings.sglang_url:
        is_well, hint = is_healthy(url, 30.0), "start it, or empty CONFIG_SGLANG_URL to have one started"
        answers = "answers" if is_well else "does not answer"
        yield Finding("target server", f"{url} {answers} /health", "" if is_well else hint)
        return
    for report in reports:
        target = report.get("target") or {}
        if settings.device == "cuda" and target.get("url") and not target.get("gpu"):
            hint = "start it where `nvidia-smi` shows a GPU, with --gpu N"
            yield Finding(f"GPU of {report['worker']}", "none", hint)


def check_all(
    reports: Sequence[Report], waiting: Mapping[str, int], paused: Mapping[str, float], settings: Settings | None
) -> Iterator[Finding]:
    """All workers, in the order in which one would look; clock and disk of a host by the first of its workers."""
    for queue in QUEUES:
        yield check_queue(queue, reports, waiting.get(queue, 0), paused)
    for name in sorted(set(paused) - set(QUEUES)):
        yield Finding(f"worker {name}", "paused", f"orchestrator farm workers --resume {name}")
    if reports:
        yield check_versions(reports)
        yield from check_targets(reports, settings) if settings else ()
        yield from check_endpoints(reports, settings)
    hosts: dict[str, Report] = {}
    for report in reports:
        hosts.setdefault(str(report["host"]), report)
    for host, report in hosts.items():
        if "clock_offset_s" in report:
            yield check_clock(host, float(report["clock_offset_s"]))
        yield check_disk(f"disk of {host}", float(report["disk_free"]))
