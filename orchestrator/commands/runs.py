"""`orchestrator runs`: all runs and how far they are."""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator import console
from orchestrator.commands import common
from orchestrator.completing import complete_run, with_completer
from orchestrator.console import command_line, raise_on_signals

if TYPE_CHECKING:
    from orchestrator.runs.status import RunStatus

DESCRIPTION = """\
List the runs whose output folders are under a folder, and how far each of them is.

A run of which a file cannot be read is named on standard error, with the file, and the exit status is 2.

--delete takes one run off its farm: no key, no result and no message of it is left in Redis, but for results that
another run has used as well.  Its output folder stays; `orchestrator retry RUN` goes on from there, and repeats what
had not been written into it."""

EPILOG = """\
examples:
  orchestrator runs
  orchestrator runs --json
  orchestrator runs --delete outputs/gpu

results: standard output; errors go to standard error.  Only --delete changes something.
exit status: 0 done; 1 the run to delete is at work or does not exist; 2 a file of a run cannot be read, or the farm
cannot be reached."""


def make_parser() -> argparse.ArgumentParser:
    parser = common.parser_for("runs", DESCRIPTION, EPILOG)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("outputs"), help="where to look (outputs)")
    delete = parser.add_argument("--delete", metavar="RUN", type=Path, help="leave nothing of this run on its farm")
    with_completer(delete, complete_run)
    common.add_json(parser)
    return parser


def run(arguments: argparse.Namespace) -> int:
    return common.handle_errors(lambda: delete(arguments) if arguments.delete else _show(arguments))


def delete(arguments: argparse.Namespace) -> int:
    """Take a run off its farm; an embedded farm that is down is started for it, since its Valkey keeps its data."""
    from orchestrator.runs.folder import own_run_id
    from orchestrator.runs.kinds import kind_of
    from orchestrator.runs.lifecycle import cancel, delete_run
    from orchestrator.runs.status import is_locked

    folder: Path = arguments.delete
    run_id, (_, kind) = own_run_id(folder), kind_of(folder)
    if is_locked(folder):
        return console.fail(console.WRONG, f"{folder} is running; stop it first: {command_line('cancel', folder)}")
    raise_on_signals()
    with kind.open_farm(folder, lambda line: print(line, file=sys.stderr)) as farm:
        if active := cancel(farm, folder, run_id, time.sleep).active:
            return console.fail(
                console.BROKEN, f"workers still have tasks of {folder}:", *(f"  {line}" for line in active)
            )
        keys = delete_run(farm, run_id, folder)
    line = f"deleted {folder} from its farm: {keys} keys; the folder stays"
    common.print_found(arguments, {"run": run_id, "folder": str(folder), "keys": keys}, [line])
    return console.DONE


def _show(arguments: argparse.Namespace) -> int:
    from orchestrator.runs.status import statuses

    runs, unreadable = statuses(arguments.folder)
    lines = table(runs) if runs else []
    if not runs and not unreadable:
        lines = [f"no runs under {arguments.folder}; `make evolve` makes one"]
    common.print_found(arguments, [*map(dataclasses.asdict, runs), *map(dataclasses.asdict, unreadable)], lines)
    if not unreadable:
        return console.DONE
    return console.fail(console.BROKEN, *(run.reason for run in unreadable))


def table(runs: Sequence[RunStatus]) -> list[str]:
    from orchestrator.report.formatting import format_money
    from orchestrator.report.layout import format_table

    rows = [("RUN", "KIND", "STATE", "DONE", "FIGURES", "TOKENS", "COST", "FOLDER")]
    for status in runs:
        figures, tokens = status.summary or "-", f"{status.target_tokens:,}"
        cost = format_money(status.cost_usd)
        rows.append((status.run, status.kind, status.state, status.progress, figures, tokens, cost, status.folder))
    return format_table(rows)
