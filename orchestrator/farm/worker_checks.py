"""Checks of the workers, from their heartbeats (workers/celery_ext/report.py)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from orchestrator.farm.checks import Finding, check_clock, check_disk, check_endpoints, failed_check, passed_check
from orchestrator.farm.embedded import is_healthy
from orchestrator.farm.workers import start_hint
from orchestrator.settings import Settings
from tasks.queues import QUEUES
from tasks.store.workers import code_version

Report = Mapping[str, Any]


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
