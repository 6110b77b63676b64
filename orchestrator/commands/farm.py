"""`orchestrator farm`, `flower` and `cluster`: an embedded farm that stays, its monitor, and one clustering on it."""

from __future__ import annotations

import dataclasses
import os
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from orchestrator import console
from orchestrator.commands import options
from orchestrator.console import Terminated, raise_on_signals
from tasks.common.logs import secret

if TYPE_CHECKING:
    from orchestrator.farm.connection import FarmStatus
    from orchestrator.settings.options import Settings


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
    from orchestrator.farm.connection import control

    settings = options.load_given(config, overrides, output)
    raise_on_signals()
    lines: list[str] = []
    try:
        if action == "up":
            lines = _up(settings)
        elif action == "down":
            is_down = control.down(settings.farm_dir)
            lines = ["the farm is down" if is_down else f"no farm is up in {settings.farm_dir}"]
    except control.FarmError as error:
        return console.fail(console.BROKEN, str(error))
    found = control.status(settings.farm_dir.resolve())
    if action == "status":
        lines = _status_lines(settings, found)
    options.print_found(as_json, dataclasses.asdict(found), lines)
    return console.DONE if found.up or action == "down" else console.BROKEN


def _up(settings: Settings) -> list[str]:
    from orchestrator.farm.connection import control, farm_spec

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
    from orchestrator.farm.connection import compose_address
    from tasks.common.logs import redacted

    if (address := compose_address(Path.cwd())) is None:
        return []
    return [
        f"the farm of docker compose is up at {redacted(address)}",
        "  its workers        orchestrator workers",
        "  Flower             docker compose port flower 5555 prints its address,",
        "                     secrets/flower/flower_basic_auth has name and password",
    ]


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
        from orchestrator.flower_ext.server import ServerConfig, serve
    except ModuleNotFoundError as error:
        return console.fail(console.WRONG, f"{error.name} is not installed: pip install '.[flower]'")
    credentials = [account.strip() for account in accounts.split(",")]
    try:
        serve(ServerConfig(farm, outputs, data, address, port, credentials, note))
    except OSError as error:
        place = error.filename or f"{address}:{port}"
        return console.fail(console.BROKEN, f"{place}: {error.strerror or error}")
    return console.DONE


@options.command()
@options.settings_options()
@click.option("--from", "collected", metavar="FILE",
              help="the output of `orchestrator collect`, in place of CONFIG_CLUSTERS_FROM")  # fmt: skip
@options.json_option
def cluster(config: Path, overrides: Sequence[str], output: str | None, collected: str | None, as_json: bool) -> int:
    """Cluster the vocabulary of the target model, as `orchestrator evolve` does before its first generation.

    Every token is decoded and embedded, reduced by PCA and clustered by k-means; or, with CONFIG_CLUSTERS_BY="waste",
    clustered by how much more verbose answers use it than short right ones.  Cluster 0 is the end-of-turn tokens,
    cluster 1 the digits and arithmetic symbols.  The result is written to a folder under outputs/clusters that is named
    by a hash of its inputs, so the same vocabulary with the same settings is clustered once.

    With --from, PCA and k-means are fitted on the tokens that `orchestrator collect` discovered, and every other token
    is assigned to the nearest centre.  The reflector then describes the clusters; rules do so with the embedded
    endpoint, and without a key.  Clusters by waste are made of the pairs of answers in the same file.

    examples:
      orchestrator cluster --config configs/embedded.config
      orchestrator cluster --config configs/embedded.config --from outputs/collect/phase0_data.json
      orchestrator cluster --config configs/embedded.config --set CLUSTERS=20 --json

    results: a folder under outputs/clusters, whose path is printed last; the clusters with their sizes and descriptions
    on standard output, progress on standard error.

    exit status: 0 clustered; 1 the settings or arguments are wrong; 2 an error of the farm; 130 interrupted; 143
    terminated.
    """
    from orchestrator.evolve.clusters import cluster_only
    from orchestrator.farm.dispatcher import Parked
    from orchestrator.report.live import open_view

    given = [] if collected is None else [f"CLUSTERS_FROM={collected}"]
    settings = options.load_given(config, [*overrides, *given], output)
    raise_on_signals()
    view = open_view(sys.stderr)
    try:
        folder, descriptions = cluster_only(settings, view)
    except Parked as parked:
        return console.fail(console.BROKEN, parked.reason)
    except KeyboardInterrupt:
        return console.fail(console.INTERRUPTED, "interrupted; no incomplete clustering is left")
    except Terminated as ended:
        return console.fail(console.BY_SIGNAL + ended.number, f"{ended}; no incomplete clustering is left")
    finally:
        view.close()
    lines = [f"{one['id']:>4}  {one['count']:>7,}  {one['description']}" for one in descriptions]
    options.print_found(as_json, {"folder": folder, "clusters": descriptions}, [*lines, f"in {folder}"])
    return console.DONE
