"""`orchestrator farm`, `workers` and `flower`: an embedded farm that stays, the workers of a farm, and its monitor."""

from __future__ import annotations

import dataclasses
import os
import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from orchestrator import console
from orchestrator.commands import options
from orchestrator.console import raise_on_signals
from tasks.common.logs import redacted, secret
from tasks.common.text import escape_control

if TYPE_CHECKING:
    from orchestrator.farm.connection import FarmStatus

COMPOSE_HINTS = (
    "  its workers        orchestrator workers",
    "  Flower             docker compose port flower 5555 prints its address,",
    "                     secrets/flower/flower_basic_auth has name and password",
)


@options.command()
@click.argument("action", type=click.Choice(("up", "down", "status")))
@options.settings_options(Path("configs/embedded.config"))
@options.json_option
def farm(action: str, config: Path, overrides: Sequence[str], output: str | None, as_json: bool) -> int:
    """Start, stop or show the embedded farm: a Valkey, the workers of the three queues and, with an empty
    CONFIG_OPENAI_BASE_URL, the rule-based endpoint.  `orchestrator evolve` uses a farm that is already running and
    leaves it running.  `status` also names the farm that `docker compose up` runs in this folder.

    examples:
      orchestrator farm up                                  with configs/embedded.config
      orchestrator farm up --config my.config --set FARM_DIR=outputs/other
      orchestrator farm status --json
      orchestrator farm down

    results: data and logs are in CONFIG_FARM_DIR (outputs/farm); addresses and processes are printed to standard
    output.

    exit status: 0 done; 1 the arguments or the settings are wrong; 2 it could not be started or, of status, is not
    up.
    """
    from orchestrator.farm.connection import control, farm_spec

    settings = options.load_given(config, overrides, output)
    raise_on_signals()
    try:
        if action == "up":
            farm = control.up(farm_spec(settings))
            lines = [
                f"the farm is up in {farm.folder}",
                f"  store and broker   {farm.redis_url}",
                f"  reflector, judge   {farm.endpoint_url or 'OpenAI, with your key'}",
                "  stop it with       orchestrator farm down (with the same --config)",
            ]
        elif action == "down":
            is_down = control.down(settings.farm_dir)
            lines = ["the farm is down" if is_down else f"no farm is up in {settings.farm_dir}"]
    except control.FarmError as error:
        return console.fail(console.BROKEN, str(error))
    found = control.status(settings.farm_dir.resolve())
    if action == "status":
        lines = _status_lines(settings.farm_dir, found)
    options.print_found(as_json, dataclasses.asdict(found), lines)
    return console.DONE if found.up or action == "down" else console.BROKEN


def _status_lines(folder: Path, found: FarmStatus) -> list[str]:
    from orchestrator.farm.connection import compose_address

    owner = f"it belongs to process {found.owner_pid}" if found.owner_pid else "it stays until `farm down`"
    lines = [f"up since {found.started}; {owner}" if found.up else f"no farm is up in {folder}"]
    for process in found.processes:
        state = "runs" if process.alive else "ended"
        lines.append(f"  {process.name:<12} {process.pid:>8}  {state:<6} {process.rss / 2**20:8.0f} MiB")
    if (address := compose_address(Path.cwd())) is not None:
        lines += [f"the farm of docker compose is up at {redacted(address)}", *COMPOSE_HINTS]
    return lines


@options.command(drives=True)
@click.option("--address", default="127.0.0.1", help="the address to listen on (127.0.0.1: this machine only)")
@click.option("--port", type=int, default=5555, help="the port (default 5555; 0 for any free port)")
@click.option("--note", default="", metavar="TEXT",
              help="printed in place of the address, where that is another one from outside")  # fmt: skip
@click.option("--outputs", type=options.path_option, default="outputs", metavar="DIR",
              help="folder of the runs' output folders (default outputs); Retry writes there")  # fmt: skip
@click.option("--data", type=options.path_option, default="outputs/flower", metavar="DIR",
              help="folder of the history (default outputs/flower), readable by you only")  # fmt: skip
def flower(address: str, port: int, note: str, outputs: Path, data: Path) -> int:
    """Serve Flower for the farm at WHETSTONE_REDIS_URL, or the one that is up in this folder: its workers and tasks,
    the run of each task, the cost of each run so far, and Retry.

    The user name and password come from FLOWER_BASIC_AUTH (USER:PASSWORD), or from the file that FLOWER_BASIC_AUTH_FILE
    names.  Without either a password is made anew and printed.

    examples:
      orchestrator flower                                         the farm that `orchestrator farm up` started
      FLOWER_BASIC_AUTH_FILE=secret orchestrator flower --address 0.0.0.0
      FLOWER_BASIC_AUTH=me:secret orchestrator flower --port 5556 --outputs runs

    results: a web page at http://ADDRESS:PORT until it is stopped; the history of tasks in --data.

    exit status: 0 stopped; 1 the arguments or the environment are wrong; 2 no farm is up, or the port or a folder
    cannot be used.
    """
    from orchestrator.farm.connection import named_address
    from tasks.store.address import ENVIRONMENT_VARIABLE

    accounts = secret("FLOWER_BASIC_AUTH")
    if ":" not in accounts and (accounts or os.environ.get("FLOWER_BASIC_AUTH_FILE")):
        return console.fail(console.WRONG, "FLOWER_BASIC_AUTH and FLOWER_BASIC_AUTH_FILE name no USER:PASSWORD")
    farm = os.environ[ENVIRONMENT_VARIABLE] = named_address(None)  # Retry starts commands for the same farm
    if not accounts:
        accounts = f"whetstone:{secrets.token_urlsafe(12)}"
        print(f"user name and password, until it ends: {accounts}", flush=True)
    try:
        from orchestrator.flower_ext.server import serve
    except ModuleNotFoundError as error:
        return console.fail(console.WRONG, f"{error.name} is not installed: pip install '.[flower]'")
    credentials = [account.strip() for account in accounts.split(",")]
    try:
        serve(farm, outputs, data, address, port, credentials, note)
    except OSError as error:
        place = error.filename or f"{address}:{port}"
        return console.fail(console.BROKEN, f"{place}: {error.strerror or error}")
    return console.DONE


@options.command()
@click.option("--pause", metavar="NAME", help="have a queue or a worker take no more tasks")  # fmt: skip
@click.option("--resume", metavar="NAME", help="the opposite")
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


def _lines(found: Sequence[Mapping[str, Any]]) -> list[str]:
    from orchestrator.farm.workers import task_line
    from orchestrator.report.format import format_table

    rows = [("WORKER", "QUEUE", "STATE", "TASKS", "PID", "HOST", "CODE", "SINCE")]
    for one in found:
        since = f"{datetime.fromtimestamp(one['started']):%Y-%m-%d %H:%M:%S}"
        tasks, state = f"{len(one['tasks'])}/{one['slots']}", str(one.get("state", "?"))
        rows.append((one["worker"], one["queue"], state, tasks, str(one["pid"]), one["host"], one["version"], since))
    head, *table = format_table(rows)
    listed = [head]
    for line, one in zip(table, found, strict=True):
        more = [one["why"]] if one.get("why") else []
        more += [f"serves only {one['serves_only']}"] if one.get("serves_only") else []
        more += [_target(one["target"])] if one.get("target") else []
        listed += [line, *(f"    {text}" for text in [*more, *map(task_line, one.get("tasks") or [])])]
    return listed


def _target(target: Mapping[str, Any]) -> str:
    parts = [f"{target['in_flight']} requests in flight, {target['tokens_a_second']} tokens per second"]
    if gpu := target.get("gpu"):
        parts.insert(0, f"GPU {gpu['index']} {gpu['name']}, {gpu['used'] / 1e9:.1f} of {gpu['total'] / 1e9:.1f} GB")
    if target.get("url"):
        parts.insert(0, f"{target['model']} on {target['engine']} {target.get('version') or ''}".rstrip())
    return "; ".join(parts)
