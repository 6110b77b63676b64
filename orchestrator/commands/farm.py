"""`orchestrator farm`: an embedded farm that keeps running between runs."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator import exit_status
from orchestrator.commands import common
from orchestrator.signals import raise_on_signals

if TYPE_CHECKING:
    from orchestrator.settings import Settings

DESCRIPTION = """\
Start, stop or show the embedded farm: a Valkey, the workers of the three queues and, with
CONFIG_EMBEDDED_ENDPOINT="rules", the rule-based endpoint.  `orchestrator evolve` uses a farm that is already running
and leaves it running."""


def make_parser() -> argparse.ArgumentParser:
    parser = common.parser_for("farm", DESCRIPTION)
    parser.add_argument("action", choices=("up", "down", "status"), help="start it, stop it, or show its processes")
    common.add_settings(parser)
    parser.set_defaults(config=Path("configs/embedded.config"))
    common.add_json(parser)
    return parser


def run(arguments: argparse.Namespace) -> int:
    return common.handle_errors(lambda: control_farm(arguments))


def control_farm(arguments: argparse.Namespace) -> int:
    from orchestrator.farm.embedded import control

    settings = common.settings_from_arguments(arguments)
    raise_on_signals()
    try:
        if arguments.action == "up":
            return _up(settings)
        if arguments.action == "down":
            print("the farm is down" if control.down(settings.farm_dir) else f"no farm is up in {settings.farm_dir}")
            return exit_status.DONE
    except control.FarmError as error:
        return exit_status.fail(exit_status.BROKEN, str(error))
    return _status(settings, as_json=arguments.json)


def _up(settings: Settings) -> int:
    from orchestrator.farm.connection import farm_spec
    from orchestrator.farm.embedded import control

    farm = control.up(farm_spec(settings))
    print(f"the farm is up in {farm.folder}")
    print(f"  store and broker   {farm.redis_url}")
    print(f"  reflector, judge   {farm.endpoint_url or 'OpenAI, with your key'}")
    print("  stop it with       orchestrator farm down (with the same --config)")
    return exit_status.DONE


def _status(settings: Settings, *, as_json: bool) -> int:
    from orchestrator.farm.embedded import control

    found = control.status(settings.farm_dir.resolve())
    if as_json:
        common.print_json(dataclasses.asdict(found))
        return exit_status.DONE if found.up else exit_status.BROKEN
    if not found.up:
        print(f"no farm is up in {settings.farm_dir}")
    else:
        owner = f"it belongs to process {found.owner_pid}" if found.owner_pid else "it stays until `farm down`"
        print(f"up since {found.started}; {owner}")
    for process in found.processes:
        state = "runs" if process.alive else "ended"
        print(f"  {process.name:<12} {process.pid:>8}  {state:<6} {process.rss / 2**20:8.0f} MiB")
    return exit_status.DONE if found.up else exit_status.BROKEN
