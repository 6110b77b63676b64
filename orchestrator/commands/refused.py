"""`orchestrator refused`: list the messages that no worker could read, or delete them."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from orchestrator import exit_status
from orchestrator.commands import common

if TYPE_CHECKING:
    from tasks.store.set_aside import SetAsideEntry

DESCRIPTION = """\
List what workers have set aside, the latest first: messages that they could not read or had no task for, malformed
entries among the messages that were taken, and keys of the broker that had another type than they must have.  Each has
its time, its place, the reason, and the beginning of its text.  The last hundred are kept.

They do no harm.  They come from another version of Whetstone, from another program that uses the same database of the
Redis or Valkey, or from a person who tries something.  A run whose own messages are refused parks with the reason."""

EPILOG = f"""\
examples:
  orchestrator refused                                 of the farm of WHETSTONE_REDIS_URL, else the embedded one
  orchestrator refused --clear                         delete them; `orchestrator doctor` then reports none
  orchestrator refused --json                          for a program, with the whole texts

results: standard output; with --clear what was deleted.
{common.OF_A_FARM}"""

SHOWN = 200  # characters of a text


def make_parser() -> argparse.ArgumentParser:
    parser = common.parser_for("refused", DESCRIPTION, EPILOG)
    parser.add_argument("--clear", action="store_true", help="delete the entries, and the keys that were renamed")
    common.add_farm(parser)
    common.add_json(parser)
    return parser


def run(arguments: argparse.Namespace) -> int:
    return common.handle_errors(lambda: _show(arguments))


def _show(arguments: argparse.Namespace) -> int:
    from orchestrator.farm.connection import named_address, reach
    from tasks.store.set_aside import SetAside

    with reach(named_address(arguments.config)) as farm:
        kept = SetAside(farm.broker)
        entries = kept.entries()
        deleted = kept.clear() if arguments.clear else None
    found = {"entries": [dataclasses.asdict(entry) for entry in entries], "deleted": deleted}
    common.print_found(arguments, found, _lines(entries, deleted))
    return exit_status.DONE


def _lines(entries: Sequence[SetAsideEntry], deleted: int | None) -> Iterator[str]:
    from tasks.escape import escape_control, shorten

    for entry in entries:
        yield f"{datetime.fromtimestamp(entry.at):%Y-%m-%d %H:%M:%S}  {entry.place}: {escape_control(entry.reason)}"
        yield f"    {escape_control(shorten(entry.text, SHOWN))}"
    if deleted is not None:
        yield f"deleted {deleted}"
    elif not entries:
        yield "nothing is set aside"
