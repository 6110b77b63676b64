"""`orchestrator farm`: an embedded farm that keeps running between runs."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator import console
from orchestrator.commands import common
from orchestrator.console import raise_on_signals

if TYPE_CHECKING:
    from orchestrator.farm.embedded import FarmStatus
    from orchestrator.settings import Settings

DESCRIPTION = """\
Start, stop or show the embedded farm: a Valkey, the workers of the three queues and, with
an empty CONFIG_OPENAI_BASE_URL, the rule-based endpoint.  `orchestrator evolve` uses a farm that is already running
and leaves it running.  `status` also names the farm that `docker compose up` runs in this folder."""

EPILOG = """\
examples:
  orchestrator farm up                                  with configs/embedded.config
  orchestrator farm up --config my.config --set FARM_DIR=outputs/other
  orchestrator farm status --json
  orchestrator farm down

results: data and logs are in CONFIG_FARM_DIR (outputs/farm); addresses and processes are printed to standard output.
exit status: 0 done; 1 the arguments or the settings are wrong; 2 it could not be started or, of status, is not up."""


def make_parser() -> argparse.ArgumentParser:
    parser = common.parser_for("farm", DESCRIPTION, EPILOG)
    parser.add_argument("action", choices=("up", "down", "status"), help="start it, stop it, or show its processes")
    common.add_settings(parser, Path("configs/embedded.config"))
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
            lines = _up(settings)
        elif arguments.action == "down":
            is_down = control.down(settings.farm_dir)
            lines = ["the farm is down" if is_down else f"no farm is up in {settings.farm_dir}"]
    except control.FarmError as error:
        return console.fail(console.BROKEN, str(error))
    found = control.status(settings.farm_dir.resolve())
    if arguments.action == "status":
        lines = _status_lines(settings, found)
    common.print_found(arguments, dataclasses.asdict(found), lines)
    return console.DONE if found.up or arguments.action == "down" else console.BROKEN


def _up(settings: Settings) -> list[str]:
    from orchestrator.farm.connection import farm_spec
    from orchestrator.farm.embedded import control

    farm = control.up(farm_spec(settings))
    return [
        f"the farm is up in {farm.folder}",
        f"  store and broker   {farm.redis_url}",
        f"  reflector, judge   {farm.endpoint_url or 'OpenAI, with your key'}",
        "  stop it with       orchestrator farm down (with the same --config)",
    ]


def _status_lines(settings: Settings, found: FarmStatus) -> list[str]:
    owner = f"it belongs to process {found.owner_pid}" if found.owner_pid else "it stays until `farm down`"
    return [
        f"up since {found.started}; {owner}" if found.up else f"no farm is up in {settings.farm_dir}",
        *(
            f"  {process.name:<12} {process.pid:>8}  {'runs' if process.alive else 'ended':<6}"
            f" {process.rss / 2**20:8.0f} MiB"
            for process in found.processes
        ),
        *_compose_lines(),
    ]


def _compose_lines() -> list[str]:
    """What to do with the farm that `docker compose up` runs in this folder; nothing where there is none."""
    from orchestrator.farm.compose import compose_address
    from tasks.store.client import redacted

    if (address := compose_address(Path.cwd())) is None:
        return []
    return [
        f"the farm of docker compose is up at {redacted(address)}",
        "  its workers        orchestrator workers",
        "  Flower             docker compose port flower 5555 prints its address,",
        "                     secrets/flower/flower_basic_auth has name and password",
    ]
