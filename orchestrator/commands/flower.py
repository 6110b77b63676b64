"""`orchestrator flower`: Flower for a farm, with its runs and Retry."""

from __future__ import annotations

import argparse
import os
import secrets
from pathlib import Path

from orchestrator import exit_status
from orchestrator.commands import common
from orchestrator.settings import SettingsError
from tasks.store.address import ENVIRONMENT_VARIABLE, redis_url_of, store_url

DESCRIPTION = """\
Serve Flower for the farm at WHETSTONE_REDIS_URL, or the one that is up in this folder: its workers and tasks; the run,
generation and child of each task; the cost of each run so far; and Retry for a parked run.

The user name and password come from FLOWER_BASIC_AUTH (USER:PASSWORD), or from the file that FLOWER_BASIC_AUTH_FILE
names.  Without either they are made anew and printed."""

EPILOG = """\
examples:
  orchestrator flower                                         the farm that `orchestrator farm up` started
  FLOWER_BASIC_AUTH_FILE=secret orchestrator flower --address 0.0.0.0
  FLOWER_BASIC_AUTH=me:secret orchestrator flower --port 5556 --outputs runs

results: a web page at http://ADDRESS:PORT until it is stopped; the history of tasks in --data.
exit status: 0 stopped; 1 the arguments or the environment are wrong; 2 the port or a folder cannot be used."""


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
    from orchestrator.flower_ext.access import VARIABLE, NoAccess, credentials

    environment = dict(os.environ)
    if not environment.get(VARIABLE) and not environment.get(f"{VARIABLE}_FILE"):
        environment[VARIABLE] = f"whetstone:{secrets.token_urlsafe(12)}"
        print(f"user name and password, until it ends: {environment[VARIABLE]}", flush=True)
    try:
        allowed = credentials(environment)
        if environment.get(ENVIRONMENT_VARIABLE):
            store_url(redis_url_of(environment))
    except NoAccess as error:
        return exit_status.fail(exit_status.WRONG, str(error))
    except ValueError as error:
        return exit_status.fail(exit_status.WRONG, f"{ENVIRONMENT_VARIABLE}: {error}")
    from orchestrator.farm.connection import FarmUnavailable, named_address  # reads the address when it is imported

    try:
        url = environment[ENVIRONMENT_VARIABLE] = named_address(None)
    except (FarmUnavailable, SettingsError) as error:
        return exit_status.fail(exit_status.WRONG, str(error))
    others = {name: value for name, value in environment.items() if not name.startswith(VARIABLE)}
    try:
        from orchestrator.flower_ext.server import ServerConfig, serve
    except ModuleNotFoundError as error:
        return exit_status.fail(exit_status.WRONG, f"{error.name} is not installed: pip install '.[flower]'")
    try:
        config = ServerConfig(
            url, arguments.outputs, arguments.data, arguments.address, arguments.port, allowed, arguments.note
        )
        serve(config, others)
    except OSError as error:
        place = error.filename or f"{arguments.address}:{arguments.port}"
        return exit_status.fail(exit_status.BROKEN, f"{place}: {error.strerror or error}")
    return exit_status.DONE
