"""`orchestrator flower`: Flower for a farm, with its runs and Retry."""

from __future__ import annotations

import argparse
import os
import secrets
from pathlib import Path

from orchestrator import console
from orchestrator.commands import common
from tasks.common.logs import secret
from tasks.store.client import ENVIRONMENT_VARIABLE

DESCRIPTION = """\
Serve Flower for the farm at WHETSTONE_REDIS_URL, or the one that is up in this folder: its workers and tasks; the run,
generation and child of each task; the cost of each run so far; and Retry.

The user name and password come from FLOWER_BASIC_AUTH (USER:PASSWORD), or from the file that FLOWER_BASIC_AUTH_FILE
names.  Without either a password is made anew and printed."""

EPILOG = """\
examples:
  orchestrator flower                                         the farm that `orchestrator farm up` started
  FLOWER_BASIC_AUTH_FILE=secret orchestrator flower --address 0.0.0.0
  FLOWER_BASIC_AUTH=me:secret orchestrator flower --port 5556 --outputs runs

results: a web page at http://ADDRESS:PORT until it is stopped; the history of tasks in --data.
exit status: 0 stopped; 1 the arguments or the environment are wrong; 2 no farm is up, or the port or a folder cannot be
used."""


def make_parser() -> argparse.ArgumentParser:
    parser = common.parser_for("flower", DESCRIPTION, EPILOG)
    parser.add_argument(
        "--address", default="127.0.0.1", help="the address to listen on (127.0.0.1: this machine only)"
    )
    parser.add_argument("--port", type=int, default=5555, help="the port (default 5555; 0 for any free port)")
    parser.add_argument("--note", default="", metavar="TEXT",
                        help="printed in place of the address, where that is another one from outside")  # fmt: skip
    parser.add_argument("--outputs", type=Path, default=Path("outputs"), metavar="DIR",
                        help="folder of the runs' output folders (default outputs); Retry writes there")  # fmt: skip
    parser.add_argument("--data", type=Path, default=Path("outputs/flower"), metavar="DIR",
                        help="folder of the history (default outputs/flower), readable by you only")  # fmt: skip
    return parser


def run(arguments: argparse.Namespace) -> int:
    return common.handle_errors(lambda: _serve(arguments))


def _serve(arguments: argparse.Namespace) -> int:
    from orchestrator.farm.connection import named_address

    accounts = secret("FLOWER_BASIC_AUTH")
    if ":" not in accounts and (accounts or os.environ.get("FLOWER_BASIC_AUTH_FILE")):
        return console.fail(console.WRONG, "FLOWER_BASIC_AUTH and FLOWER_BASIC_AUTH_FILE name no USER:PASSWORD")
    address = os.environ[ENVIRONMENT_VARIABLE] = named_address(None)  # Retry starts commands for the same farm
    if not accounts:
        accounts = f"whetstone:{secrets.token_urlsafe(12)}"
        print(f"user name and password, until it ends: {accounts}", flush=True)
    try:
        from orchestrator.flower_ext.server import ServerConfig, serve
    except ModuleNotFoundError as error:
        return console.fail(console.WRONG, f"{error.name} is not installed: pip install '.[flower]'")
    config = ServerConfig(
        address, arguments.outputs, arguments.data, arguments.address, arguments.port,
        [account.strip() for account in accounts.split(",")], arguments.note,
    )  # fmt: skip
    try:
        serve(config)
    except OSError as error:
        place = error.filename or f"{arguments.address}:{arguments.port}"
        return console.fail(console.BROKEN, f"{place}: {error.strerror or error}")
    return console.DONE
