"""`orchestrator runs`, `status` and `failed`: all runs, how far one of them is, and what has failed."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from orchestrator import console
from orchestrator.commands import options
from orchestrator.console import command_line, raise_on_signals
from tasks.common.text import escape_control

if TYPE_CHECKING:
    from orchestrator.runs.status import RunStatus
    from tasks.records import Failure

WIDEST = 300  # of an error, in columns


@options.command()
@click.argument("folder", type=options.path_option, default="outputs")
@click.option("--delete", metavar="RUN", type=options.RunFolder(), help="leave nothing of this run on its farm")
@options.json_option
def runs(folder: Path, delete: Path | None, as_json: bool) -> int:
    """List the runs whose output folders are under a folder, and how far each of them is.

    A run of which a file cannot be read is named on standard error, with the file, and the exit status is 2.

    --delete takes one run off its farm: no key, no result and no message of it is left in Redis, but for results that
    another run has used as well.  Its output folder stays; `orchestrator retry RUN` goes on from there, and repeats
    what had not been written into it.

    examples:
      orchestrator runs
      orchestrator runs --json
      orchestrator runs --delete outputs/gpu

    exit status: 0 done; 1 the run to delete is at work or does not exist; 2 a file of a run cannot be read, or the farm
    cannot be reached.
    """
    from orchestrator.runs.status import statuses

    if delete is not None:
        return _delete(delete, as_json)
    found, unreadable = statuses(folder)
    lines = _table(found) if found else []
    if not found and not unreadable:
        lines = [f"no runs under {folder}; `make evolve` makes one"]
    options.print_found(as_json, [*map(dataclasses.asdict, found), *map(dataclasses.asdict, unreadable)], lines)
    return console.fail(console.BROKEN, *(one.reason for one in unreadable)) if unreadable else console.DONE


def _delete(folder: Path, as_json: bool) -> int:
    """Take a run off its farm; an embedded farm that is down is started for it, since its Valkey keeps its data."""
    from orchestrator.runs.folder import own_run_id
    from orchestrator.runs.kinds import kind_of
    from orchestrator.runs.lifecycle import cancel, delete_run
    from orchestrator.runs.status import is_locked

    run_id, (_, kind) = own_run_id(folder), kind_of(folder)
    if is_locked(folder):
        return console.fail(console.WRONG, f"{folder} is running; stop it first: {command_line('cancel', folder)}")
    raise_on_signals()
    with kind.open_farm(folder, lambda line: print(line, file=sys.stderr)) as farm:
        if active := cancel(farm, folder, run_id, time.sleep).active:
            lines = (f"  {line}" for line in active)
            return console.fail(console.BROKEN, f"workers still have tasks of {folder}:", *lines)
        keys = delete_run(farm, run_id, folder)
    line = f"deleted {folder} from its farm: {keys} keys; the folder stays"
    options.print_found(as_json, {"run": run_id, "folder": str(folder), "keys": keys}, [line])
    return console.DONE


def _table(runs: Sequence[RunStatus]) -> list[str]:
    from orchestrator.report.format import format_money, format_table

    rows = [("RUN", "KIND", "STATE", "DONE", "FIGURES", "TOKENS", "COST", "FOLDER")]
    for status in runs:
        figures, tokens = status.summary or "-", f"{status.target_tokens:,}"
        cost = format_money(status.cost_usd)
        rows.append((status.run, status.kind, status.state, status.progress, figures, tokens, cost, status.folder))
    return format_table(rows)


@options.command()
@options.run_argument
@options.json_option
def status(run: Path, as_json: bool) -> int:
    """Show how far one run is: what is done, its figures, tokens and cost, and why it does not go on.

    examples:
      orchestrator status outputs/evolve
      orchestrator status outputs/evolve --json

    exit status: 0 printed; 1 the folder holds no run.
    """
    from orchestrator.report.format import format_cost
    from orchestrator.runs.kinds import kind_of
    from orchestrator.runs.status import run_status

    found, (_, kind) = run_status(run), kind_of(run)
    lines = [
        *kind.figure_lines(found.figures),
        ("used", f"{found.target_tokens:,} generated tokens, {found.calls:,} calls"),
        ("cost", format_cost(found.cost_usd, found.budget_usd, found.unconfirmed_usd)),
        *([("stopped" if found.state == "stopped" else "parked", found.reason)] if found.reason else []),
        *(("failed", f"{failure.stage} of {failure.node}: {failure.error}") for failure in found.failures),
        ("files", escape_control(found.folder)),
        *_next_step(found),
    ]
    listed = [f"{found.run}: {found.state}, {found.progress} done", *(f"  {what:<10} {text}" for what, text in lines)]
    options.print_found(as_json, dataclasses.asdict(found), listed)
    return console.DONE


def _next_step(status: RunStatus) -> list[tuple[str, str]]:
    """How the run goes on, if it does."""
    if status.state == "finished":
        return []
    from orchestrator.runs.status import DEAD_END

    if status.state == "stopped" and status.reason:
        return [("next", DEAD_END)]
    return [("go on", command_line("retry", Path(status.folder)))]


@options.command()
@click.argument("run", metavar="[RUN]", type=options.RunFolder(), required=False)
@options.json_option
def failed(run: Path | None, as_json: bool) -> int:
    """List the tasks that have failed for good and wait to be retried: of which individual (its name in the tree and in
    history.jsonl) or job, at what stage, with what error, after how many tries, and the file of the last prompt where
    it was a call.

    While the farm is up, the list comes from the farm, also in the middle of a run; otherwise from the file that the
    run wrote into its folder when it parked.

    examples:
      orchestrator failed                          every run under outputs/
      orchestrator failed outputs/gpu              one run
      orchestrator failed outputs/gpu --json       for a program

    Remove the cause, then `orchestrator retry RUN`, or `orchestrator retry RUN TASK ...` for some of them.

    exit status: 0 printed; 1 the folder holds no run; 2 a file of one of all runs cannot be read.
    """
    from orchestrator.runs.folder import OutputError
    from orchestrator.runs.lifecycle import failed_of
    from orchestrator.runs.status import find_runs
    from orchestrator.settings import SettingsError

    found: dict[Path, list[Failure]] = {}
    problems: list[str] = []
    for folder in [run] if run else find_runs(Path("outputs")):
        try:
            found[folder] = failed_of(folder)
        except (OutputError, SettingsError) as error:  # it does not hide the others
            problems += error.problems if isinstance(error, SettingsError) else [str(error)]
    listed = [{**dataclasses.asdict(f), "folder": str(folder)} for folder, some in found.items() for f in some]
    options.print_found(as_json, listed, _failed_lines(run, found))
    return console.fail(console.WRONG if run else console.BROKEN, *problems) if problems else console.DONE


def _failed_lines(run: Path | None, found: Mapping[Path, Sequence[Failure]]) -> Iterator[str]:
    if found and not any(found.values()):
        yield f"nothing has failed in {run or 'the runs under outputs'}"
    for folder, failures in found.items():
        for failure in failures:
            yield from _lines_of(failure, folder)
        if failures:
            yield f"  retry    {command_line('retry', folder)}"


def _lines_of(failure: Failure, folder: Path) -> Iterator[str]:
    """What is printed of one failed task."""
    from orchestrator.report.format import truncate

    tries = f"tried {failure.tries} time{'' if failure.tries == 1 else 's'}"
    at = f"{datetime.fromtimestamp(failure.at):%Y-%m-%d %H:%M:%S}"
    yield f"{failure.node}: {failure.stage} failed, {tries}, last at {at}, task {failure.task}"
    yield f"  {truncate(escape_control(failure.error), WIDEST)}"
    if failure.prompt:
        yield f"  prompt   {folder / 'reflector_prompts' / failure.prompt}"
