"""`orchestrator doctor`: look at everything that a run needs, and say how to mend what is wrong."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.commands import common
from orchestrator.settings import Settings, SettingsError, load_settings

if TYPE_CHECKING:
    from orchestrator.farm.checks import Finding

DESCRIPTION = """\
Check everything that a run needs, a line each: the settings, the broker (does it answer, does it keep its data), the
workers of each queue and what is paused, that all have the same code, the target servers and GPUs, the key of the
openai workers, the disks, and the clocks of all hosts.  Nothing is started and nothing is changed.

Exit status 0 when all is well, 1 when something is not; the line below it says how to mend it."""

EPILOG = """\
examples:
  orchestrator doctor                                the farm of WHETSTONE_REDIS_URL, else the embedded one here
  orchestrator doctor --config configs/gpu.config    also checks the settings, and what they want
  orchestrator doctor --json"""


def make_parser() -> argparse.ArgumentParser:
    parser = common.parser_for("doctor", DESCRIPTION, EPILOG)
    common.add_farm(parser)
    parser.add_argument("--json", action="store_true", help="as JSON")
    return parser


def run(arguments: argparse.Namespace) -> int:
    return common.handle_errors(lambda: examine(arguments))


def examine(arguments: argparse.Namespace) -> int:
    found = list(findings(arguments.config))
    status = common.DONE if all(finding.ok for finding in found) else common.WRONG
    if arguments.json:
        print(json.dumps([dataclasses.asdict(finding) for finding in found], indent=2))
        return status
    widest = max(len(finding.check) for finding in found)
    for finding in found:
        print(f"{'ok   ' if finding.ok else 'WRONG'}  {finding.check.ljust(widest)}  {finding.said}")
        if finding.hint:
            print(f"       {' ' * widest}  hint: {finding.hint}")
    return status


def findings(config: Path | None) -> Iterator[Finding]:
    """Everything, as far as one can get: without settings there is no farm to look for, without a broker no workers."""
    from orchestrator.farm.checks import disk, well, wrong

    settings: Settings | None = None
    if config is not None:
        try:
            settings = load_settings(config)
            yield well("settings", str(config))
        except SettingsError as error:
            yield from (wrong("settings", problem, f"edit {config}") for problem in error.problems)
            return
    folder = settings.output_dir if settings else Path("outputs")
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    yield disk("disk here", shutil.disk_usage(there).free)
    if not os.access(there, os.W_OK):
        yield wrong(
            "output folder", f"{there} cannot be written", "give another CONFIG_OUTPUT_DIR, or the right to write"
        )
    if settings is not None and (settings.device, settings.farm) == ("cuda", "embedded"):
        from orchestrator.farm.checks import check_gpus_here

        yield check_gpus_here()
    yield from _farm(config, settings)


def _farm(config: Path | None, settings: Settings | None) -> Iterator[Finding]:
    import redis

    from orchestrator.farm import workers
    from orchestrator.farm.checks import check_broker, check_clock, own_offset, wrong
    from orchestrator.farm.connection import FarmUnavailable, named_address, reach
    from orchestrator.farm.worker_checks import check_all

    try:
        address = named_address(config)
        with reach(address) as farm:
            yield from check_broker(farm.store.redis, address)
            yield check_clock("here", own_offset(farm.store.redis))
            yield from check_all(workers.reports(farm), farm.queues(), workers.paused(farm), settings)
    except (FarmUnavailable, redis.RedisError) as error:
        hint = "start a farm: orchestrator farm up, or docker compose up -d; or set WHETSTONE_REDIS_URL or --config"
        yield wrong("broker", str(error), hint)
