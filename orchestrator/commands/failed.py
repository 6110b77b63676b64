"""`orchestrator failed`: which tasks of a run, or of all runs, have failed."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator import console
from orchestrator.commands import common
from orchestrator.console import command_line

if TYPE_CHECKING:
    from tasks.records import Failure

DESCRIPTION = """\
List the tasks that have failed for good and wait to be retried: of which individual (its name in the tree and in
history.jsonl) or job, at what stage, with what error, after how many tries, and the file of the last prompt where
it was a call.

While the farm is up, the list comes from the farm, also in the middle of a run; otherwise from the file that the run
wrote into its folder when it parked."""

WIDEST = 300  # of an error, in columns

EPILOG = f"""\
examples:
  orchestrator failed                          every run under outputs/
  orchestrator failed outputs/gpu              one run
  orchestrator failed outputs/gpu --json       for a program

Remove the cause, then `orchestrator retry RUN`, or `orchestrator retry RUN TASK ...` for some of them.
{common.LISTED}
exit status: 0 printed; 1 the folder holds no run; 2 a file of one of all runs cannot be read."""


def make_parser() -> argparse.ArgumentParser:
    parser = common.parser_for("failed", DESCRIPTION, EPILOG)
    common.add_run(parser, nargs="?", help="the run's output folder (all under outputs/)")
    common.add_json(parser)
    return parser


def run(arguments: argparse.Namespace) -> int:
    return common.handle_errors(lambda: _show(arguments))


def _show(arguments: argparse.Namespace) -> int:
    from orchestrator.runs.folder import OutputError
    from orchestrator.runs.lifecycle import failed_of
    from orchestrator.runs.status import find_runs
    from orchestrator.settings import SettingsError

    folders = [arguments.run] if arguments.run else find_runs(Path("outputs"))
    failed: dict[Path, list[Failure]] = {}
    problems: list[str] = []
    for folder in folders:
        try:
            failed[folder] = failed_of(folder)
        except (OutputError, SettingsError) as error:  # it does not hide the others
            problems += error.problems if isinstance(error, SettingsError) else [str(error)]
    listed = [{**dataclasses.asdict(f), "folder": str(folder)} for folder, some in failed.items() for f in some]
    common.print_found(arguments, listed, _lines(arguments.run, failed))
    if not problems:
        return console.DONE
    return console.fail(console.WRONG if arguments.run else console.BROKEN, *problems)


def _lines(run: Path | None, failed: Mapping[Path, Sequence[Failure]]) -> Iterator[str]:
    if failed and not any(failed.values()):
        yield f"nothing has failed in {run or 'the runs under outputs'}"
    for folder, failures in failed.items():
        for failure in failures:
            yield from lines_of(failure, folder)
        if failures:
            yield f"  retry    {command_line('retry', folder)}"


def lines_of(failure: Failure, folder: Path) -> Iterator[str]:
    """What is printed of one failed task."""
    from orchestrator.report.layout import truncate
    from tasks.common.text import escape_control

    tries = f"tried {failure.tries} time{'' if failure.tries == 1 else 's'}"
    at = f"{datetime.fromtimestamp(failure.at):%Y-%m-%d %H:%M:%S}"
    yield f"{failure.node}: {failure.stage} failed, {tries}, last at {at}, task {failure.task}"
    yield f"  {truncate(escape_control(failure.error), WIDEST)}"
    if failure.prompt:
        yield f"  prompt   {folder / 'reflector_prompts' / failure.prompt}"
