"""`orchestrator flower`: the monitor of a farm."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import click

from orchestrator import console
from orchestrator.commands import options
from tasks.common.logs import secret


@options.command(drives=True)
@options.farm_option
@click.option("--address", default="127.0.0.1", help="the address to listen on (127.0.0.1: this machine only)")
@click.option("--port", type=int, default=5555, help="the port (default 5555; 0 for any free port)")
@click.option("--note", default="", metavar="TEXT",
              help="text to print in place of the address, if the address from outside is another one")  # fmt: skip
@click.option("--outputs", type=options.path_option, default="outputs", metavar="DIR",
              help="the folder of the runs' output folders (default outputs); Retry writes there")  # fmt: skip
@click.option("--data", type=options.path_option, default="outputs/flower", metavar="DIR",
              help="the folder of the history (default outputs/flower); only you can read it")  # fmt: skip
def flower(config: Path | None, address: str, port: int, note: str, outputs: Path, data: Path) -> int:
    """Serve Flower for a farm: its workers and tasks, the run of each task, the cost of each run so far, and Retry.

    The user name and password come from FLOWER_BASIC_AUTH (USER:PASSWORD), or from the file that FLOWER_BASIC_AUTH_FILE
    names.  Without either, a new password is made and printed.

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
    farm = os.environ[ENVIRONMENT_VARIABLE] = named_address(config)  # Retry starts commands for the same farm
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
