"""`orchestrator workers`: list the workers of the farm and their tasks, or pause some of them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from orchestrator import console
from orchestrator.commands import options
from tasks.common.text import escape_control


@options.command()
@click.option("--pause", metavar="NAME", shell_complete=options.complete_queue,
              help="have a queue or a worker take no more tasks")  # fmt: skip
@click.option("--resume", metavar="NAME", shell_complete=options.complete_queue, help="the opposite")
@options.farm_option
@options.json_option
def workers(pause: str | None, resume: str | None, config: Path | None, as_json: bool) -> int:
    """List the workers of the farm: queue, state, tasks in flight and their limit, pid, host and code version; of a gpu
    worker also its GPU, model and server, requests in flight, and generated tokens per second.

    The state is ready, paused (see --pause), refusing (it returns tasks that it cannot do to the queue; the reason is
    printed), or silent (there is a recent heartbeat, but no reply).

    A paused queue or worker takes no more tasks, also when it starts anew, and finishes those that it has.

    examples:
      orchestrator workers                                 the farm of WHETSTONE_REDIS_URL, else the embedded one
      orchestrator workers --config configs/gpu.config     the farm that a .config names
      orchestrator workers --json                          for a program
      orchestrator workers --pause openai                  no more calls, for example to change the endpoint's limits
      orchestrator workers --resume openai

    To add a worker, on any host:  WHETSTONE_REDIS_URL=... python -m workers gpu --name gpu2

    exit status: 0 done; 1 the arguments or the settings are wrong; 2 the farm cannot be reached.
    """
    from orchestrator.farm import workers
    from orchestrator.farm.connection import named_address, reach

    if pause and resume:
        raise click.UsageError("--pause and --resume exclude each other")
    with reach(named_address(config)) as farm:
        if name := pause or resume:
            states = workers.set_paused(farm, name, bool(pause))
            options.print_found(as_json, {"workers": states}, [f"{one}: {state}" for one, state in states.items()])
            return console.DONE
        found, paused, queues = workers.reports(farm), workers.paused(farm), farm.queues()
    listed = _lines(found) if found else [f"no worker is available; {workers.start_hint('QUEUE')}"]
    for name, since in sorted(paused.items()):
        listed.append(f"paused: {escape_control(name)}, since {datetime.fromtimestamp(since):%Y-%m-%d %H:%M:%S}")
    listed.append("waiting: " + ", ".join(f"{count} on {queue}" for queue, count in queues.items()))
    options.print_found(as_json, {"workers": found, "paused": paused, "queues": queues}, listed)
    return console.DONE


def _lines(found: list[dict[str, Any]]) -> list[str]:
    """The table; below each worker, why it refuses work, its server, and its tasks."""
    from orchestrator.farm.workers import task_lines
    from orchestrator.report.format import format_table

    head = ("WORKER", "QUEUE", "STATE", "TASKS", "PID", "HOST", "CODE", "SINCE")
    table = format_table([head, *(_row(report) for report in found)])
    listed = table[:1]
    for line, report in zip(table[1:], found, strict=True):
        more = [report["why"]] if report.get("why") else []
        more += [f"serves only {report['serves_only']}"] if report.get("serves_only") else []
        more += [_target(report["target"])] if report.get("target") else []
        listed += [line, *(f"    {text}" for text in [*more, *task_lines(report)])]
    return listed


def _row(report: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        str(report["worker"]),
        str(report["queue"]),
        str(report.get("state", "?")),
        f"{len(report['tasks'])}/{report['slots']}",
        str(report["pid"]),
        str(report["host"]),
        str(report["version"]),
        f"{datetime.fromtimestamp(report['started']):%Y-%m-%d %H:%M:%S}",
    )


def _target(target: Mapping[str, Any]) -> str:
    """The server and the GPU of a gpu worker."""
    parts = []
    if target.get("url"):
        parts.append(f"{target['model']} on {target['engine']} {target.get('version') or ''}".rstrip())
    if gpu := target.get("gpu"):
        parts.append(f"GPU {gpu['index']} {gpu['name']}, {gpu['used'] / 1e9:.1f} of {gpu['total'] / 1e9:.1f} GB")
    parts.append(f"{target['in_flight']} requests in flight, {target['tokens_a_second']} tokens per second")
    return "; ".join(parts)
