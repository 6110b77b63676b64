"""`orchestrator workers`: who works on the farm, and at what."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from orchestrator.commands import common

DESCRIPTION = """\
List the workers of the farm: queue, state, tasks in hand of how many at once, pid, host and code.  A gpu worker also
says which GPU, model and server it has, how many requests are in flight and how many tokens a second it makes.

The state is ready, paused (see `orchestrator pause`), refusing (it leaves work that it cannot do to others, and says
why), or silent (it reported within the last seconds, but does not answer now)."""

EPILOG = """\
examples:
  orchestrator workers                                 the farm of WHETSTONE_REDIS_URL, else the embedded one here
  orchestrator workers --config configs/gpu.config     the farm that a .config names
  orchestrator workers --json                          for a program

A worker joins wherever it is started:  WHETSTONE_REDIS_URL=... python -m workers gpu --name gpu2"""


def make_parser() -> argparse.ArgumentParser:
    parser = common.parser_for("workers", DESCRIPTION, EPILOG)
    common.add_farm(parser)
    parser.add_argument("--json", action="store_true", help="as JSON")
    return parser


def run(arguments: argparse.Namespace) -> int:
    return common.handle_errors(lambda: show(arguments))


def show(arguments: argparse.Namespace) -> int:
    from orchestrator.farm import workers
    from orchestrator.farm.connection import named_address, reach

    with reach(named_address(arguments.config)) as farm:
        found, paused, queues = workers.reports(farm), workers.paused(farm), farm.queues()
    if arguments.json:
        print(json.dumps({"workers": found, "paused": paused, "queues": queues}, indent=2))
        return common.DONE
    print("\n".join(lines(found)) if found else "no worker is there; start one with `python -m workers QUEUE`")
    for name, since in sorted(paused.items()):
        print(f"paused: {name}, since {datetime.fromtimestamp(since):%Y-%m-%d %H:%M:%S}")
    print("waiting: " + ", ".join(f"{count} on {queue}" for queue, count in queues.items()))
    return common.DONE


def lines(found: list[dict[str, Any]]) -> list[str]:
    """The table, with what more there is to say under each worker."""
    from orchestrator.farm.workers import at_work
    from orchestrator.report.layout import format_table

    head = ("WORKER", "QUEUE", "STATE", "TASKS", "PID", "HOST", "CODE", "SINCE")
    table = format_table([head, *(_row(report) for report in found)])
    shown = table[:1]
    for line, report in zip(table[1:], found, strict=True):
        more = [report["why"]] if report.get("why") else []
        more += [f"serves only {report['serves_only']}"] if report.get("serves_only") else []
        more += [_target(report["target"])] if report.get("target") else []
        shown += [line, *(f"    {text}" for text in [*more, *at_work(report)])]
    return shown


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
    """What a gpu worker says of its server and its GPU."""
    said = []
    if target.get("url"):
        said.append(f"{target['model']} on {target['engine']} {target.get('version') or ''}".rstrip())
    if gpu := target.get("gpu"):
        said.append(f"GPU {gpu['index']} {gpu['name']}, {gpu['used'] / 1e9:.1f} of {gpu['total'] / 1e9:.1f} GB")
    said.append(f"{target['in_flight']} requests in flight, {target['tokens_a_second']} tokens a second")
    return "; ".join(said)
