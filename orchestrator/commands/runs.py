"""`orchestrator runs`, `status`, `failed`, `retry` and `cancel`: where runs are, what failed, to go on, to stop."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from orchestrator import console
from orchestrator.commands import options
from orchestrator.console import command_line, raise_on_signals
from tasks.common.text import escape_control

if TYPE_CHECKING:
    from tasks.records import Failure

WIDEST = 300  # of an error, in columns


@options.command()
@click.argument("folder", type=options.path_option, default="outputs")
@click.option("--delete", metavar="RUN", type=options.path_option, help="remove everything of this run from its farm")
@options.json_option
def runs(folder: Path, delete: Path | None, as_json: bool) -> int:
    """List the runs whose output folders are under a folder, and how far each of them is.

    If a file of a run cannot be read, standard error names the run and the file, and the exit status is 2.

    --delete removes one run from its farm: all its keys, results and messages in Redis, except results that another run
    has used as well.  The output folder stays.  `orchestrator retry RUN` resumes the run from there, and repeats what
    was not written into the folder.

    examples:
      orchestrator runs
      orchestrator runs --json
      orchestrator runs --delete outputs/gpu

    exit status: 0 done; 1 the run to delete is at work or does not exist; 2 a file of a run cannot be read, or the farm
    cannot be reached.
    """
    from orchestrator.report.format import format_money, format_table
    from orchestrator.runs.status import statuses

    if delete is not None:
        return _delete(delete, as_json)
    found, unreadable = statuses(folder)
    rows = [("RUN", "KIND", "STATE", "DONE", "FIGURES", "TOKENS", "COST", "FOLDER")]
    for one in found:
        figures, tokens, cost = one.summary or one.step or "-", f"{one.target_tokens:,}", format_money(one.cost_usd)
        rows.append((one.run, one.kind, one.state, one.progress, figures, tokens, cost, one.folder))
    lines = format_table(rows) if found else []
    if not found and not unreadable:
        lines = [f"no runs under {folder}; `make evolve` makes one"]
    others = [{"folder": path, "reason": why, "state": "unreadable"} for path, why in unreadable.items()]
    options.print_found(as_json, [*map(dataclasses.asdict, found), *others], lines)
    return console.fail(console.BROKEN, *unreadable.values()) if unreadable else console.DONE


def _delete(folder: Path, as_json: bool) -> int:
    """Take a run off its farm; an embedded farm that is down is started for it, since its Valkey keeps its data."""
    from orchestrator.runs.folder import is_locked, own_run_id
    from orchestrator.runs.kinds import kind_of
    from orchestrator.runs.lifecycle import cancel, delete_run

    run_id, kind = own_run_id(folder), kind_of(folder)
    if is_locked(folder):
        return console.fail(console.WRONG, f"{folder} is running; stop it first: {command_line('cancel', folder)}")
    raise_on_signals()
    with kind.open_farm(folder, console.say) as farm:
        with console.ticking(console.say, lambda: f"waiting for the workers that have tasks of {folder}"):
            active = cancel(farm, folder, run_id).active
        if active:
            lines = (f"  {line}" for line in active)
            return console.fail(console.BROKEN, f"workers still have tasks of {folder}:", *lines)
        keys = delete_run(farm, run_id, folder)
    line = f"deleted {folder} from its farm: {keys} keys; the folder stays"
    options.print_found(as_json, {"run": run_id, "folder": str(folder), "keys": keys}, [line])
    return console.DONE


@options.command()
@options.run_argument
@options.json_option
def status(run: Path, as_json: bool) -> int:
    """Show how far one run is: what is done, its figures, tokens and cost, and why it has stopped.

    examples:
      orchestrator status outputs/evolve
      orchestrator status outputs/evolve --json

    exit status: 0 printed; 1 the folder holds no run.
    """
    from orchestrator.report.format import format_cost
    from orchestrator.runs.kinds import kind_of
    from orchestrator.runs.status import DEAD_END, run_status

    found, kind = run_status(run), kind_of(run)
    next_step = ("go on", command_line("retry", run))
    if found.state == "running":
        next_step = ("now", found.step)
    elif found.state == "stopped" and found.reason:
        next_step = ("next", DEAD_END)
    lines = [
        *kind.figure_lines(found.figures),
        ("used", f"{found.target_tokens:,} generated tokens, {found.calls:,} calls"),
        ("cost", format_cost(found.cost_usd, found.budget_usd, found.unconfirmed_usd)),
        *([("stopped" if found.state == "stopped" else "parked", found.reason)] if found.reason else []),
        *(("failed", f"{failure.stage} of {failure.node}: {failure.error}") for failure in found.failures),
        ("files", escape_control(found.folder)),
        *([next_step] if found.state != "finished" and next_step[1] else []),
    ]
    listed = [f"{found.run}: {found.state}, {found.progress} done", *(f"  {what:<10} {text}" for what, text in lines)]
    options.print_found(as_json, dataclasses.asdict(found), listed)
    return console.DONE


@options.command()
@click.argument("run", metavar="[RUN]", type=options.path_option, required=False)
@options.json_option
def failed(run: Path | None, as_json: bool) -> int:
    """List the tasks that have failed for good and wait for a retry.

    Each has the name of its individual (as in history.jsonl) or job, its stage, the number of tries, the time, the id
    of the task, and the error.  While the farm is up, the list comes from the farm, also during a run.  Otherwise it
    comes from the file that the run wrote into its folder when it parked.

    examples:
      orchestrator failed                          every run under outputs/
      orchestrator failed outputs/gpu              one run
      orchestrator failed outputs/gpu --json       for a program

    Remove the cause.  Then run `orchestrator retry RUN`, or `orchestrator retry RUN TASK ...` for some of the tasks.

    exit status: 0 printed; 1 the folder holds no run; 2 a file of one of several runs cannot be read.
    """
    from orchestrator.runs.folder import OutputError
    from orchestrator.runs.lifecycle import failed_of
    from orchestrator.runs.status import find_runs
    from orchestrator.settings import SettingsError

    found: list[tuple[Path, list[Failure]]] = []
    problems: list[str] = []
    for folder in [run] if run else find_runs(Path("outputs")):
        try:
            found.append((folder, failed_of(folder)))
        except (OutputError, SettingsError) as error:  # it does not hide the others
            problems += str(error).splitlines()
    lines, failures = list[str](), list[dict[str, Any]]()
    for folder, some in found:
        failures += [{**dataclasses.asdict(failure), "folder": str(folder)} for failure in some]
        lines += [line for failure in some for line in _failure_lines(failure)]
        lines += [f"  retry    {command_line('retry', folder)}"] if some else []
    if found and not failures:
        lines = [f"nothing has failed in {run or 'the runs under outputs'}"]
    options.print_found(as_json, failures, lines)
    return console.fail(console.WRONG if run else console.BROKEN, *problems) if problems else console.DONE


def _failure_lines(failure: Failure) -> list[str]:
    from orchestrator.report.format import truncate

    tries = f"tried {failure.tries} time{'' if failure.tries == 1 else 's'}"
    at = f"{datetime.fromtimestamp(failure.at):%Y-%m-%d %H:%M:%S}"
    return [
        f"{failure.node}: {failure.stage} failed, {tries}, last at {at}, task {failure.task}",
        f"  {truncate(escape_control(failure.error), WIDEST)}",
    ]


@options.command(drives=True)
@options.run_argument
@click.argument("tasks", metavar="[TASK...]", nargs=-1)
@options.set_option
@options.plain_option
def retry(run: Path, tasks: Sequence[str], overrides: Sequence[str], plain: bool) -> int:
    """Resume a run that parked or was stopped, with the settings that it was started with.

    `orchestrator resume` is the same command.

    Only what is missing is done; finished results are kept.  First remove the cause of the failure: `orchestrator
    failed RUN` shows the error.

    --set changes a setting.  Of an evolution these may change: the farm, the server, rate limits, prices, the budget,
    the number of generations, callbacks, and the reflector.  Of the other kinds NAME is a key of the YAML file, or an
    option of the command line.  Another judge is refused for an evolution; of a collection it judges all answers again.

    With TASKs only these failed tasks are done again; if others have failed as well, the run then parks with them.  A
    TASK is the name of the individual (g2_child3_mut) or of the job, or the id of the task or its first characters, as
    `orchestrator failed` lists them.

    A run that ended with an error that would occur again (exit status 2) is not started; `orchestrator status RUN`
    shows the error.  While another process drives the run, the failed tasks are sent to its farm again, and that
    process continues.

    examples:
      orchestrator retry outputs/gpu                            everything that is missing
      orchestrator retry outputs/gpu g2_child3_mut              the failed stage of one individual, and its next stages
      orchestrator retry outputs/gpu --set BUDGET_USD=80        a run that parked because its money was spent
      orchestrator retry outputs/collect --set phase0.judge_concurrency=2
      orchestrator retry outputs/guide --set budget_usd=5

    results: the run's output folder, as with the command that began it.
    exit status: that of the command that began the run; 0 also where failed tasks of a run at work were sent again; 1
    also where no failed task has such a name, or settings of a run at work are to change.
    """
    from orchestrator.runs.folder import OutputFolder, is_locked, own_run_id
    from orchestrator.runs.kinds import kind_of
    from orchestrator.runs.lifecycle import failed_of, reach_farm_of, retry_failed, select_failures
    from orchestrator.runs.status import DEAD_END, read_parked_state

    kind = kind_of(run)
    if is_locked(run):  # the process that drives it goes on with what is sent again
        if overrides:
            raise click.UsageError(f"{run} is running; stop it to change settings: {command_line('cancel', run)}")
        with reach_farm_of(run) as farm:
            sent = retry_failed(farm.app, farm.store, own_run_id(run), tasks)
        named = ", ".join(f"{failure.stage} of {failure.node} (task {failure.task})" for failure in sent)
        print(f"sent again: {named}" if sent else f"nothing has failed in {run}; the run is running")
        return console.DONE
    if tasks:
        select_failures(failed_of(run), tasks)
    parked = read_parked_state(OutputFolder(run))
    if parked and parked.is_dead_end:
        return console.fail(console.BROKEN, parked.reason, DEAD_END)
    return kind.resume(run, overrides, tasks, plain=plain)


@options.command()
@options.run_argument
def cancel(run: Path) -> int:
    """Stop a run, from any terminal or machine that sees its output folder.

    The process that drives the run parks it (exit status 3).  The messages of the run are removed from the queues.  A
    worker ends a task of the run as soon as the answer or the call arrives that the task waits for.  Finished work is
    kept: `orchestrator retry RUN` resumes the run.

    examples:
      orchestrator cancel outputs/gpu
      orchestrator runs --delete outputs/gpu      afterwards, to remove the run from the farm

    results: the folder keeps all that was finished; standard output says how many messages were dropped.

    exit status: 0 stopped; 1 the folder holds no run, or neither it nor its farm is at work; 2 something still works
    on it, or its farm cannot be reached.
    """
    from orchestrator.farm import FarmUnavailable, StoreLost
    from orchestrator.farm.dispatcher import CANCELLED_REASON
    from orchestrator.runs.folder import OutputFolder, is_locked, own_run_id
    from orchestrator.runs.lifecycle import cancel, reach_farm_of
    from orchestrator.runs.status import ParkedState, read_parked_state, run_status, write_parked_state

    run_id, output, was_locked = own_run_id(run), OutputFolder(run), is_locked(run)
    try:
        waits = console.ticking(console.say, lambda: f"waiting for what is at work on {run}")
        with reach_farm_of(run) as farm, waits:
            done = cancel(farm, run, run_id)
    except FarmUnavailable as error:
        if was_locked or isinstance(error, StoreLost):  # it is up, and refuses
            raise
        return console.fail(console.WRONG, f"{run} is not running, and its farm is down: {error}")
    if done.locked or done.active:
        more = [f"  {line}" for line in done.active]
        return console.fail(console.BROKEN, f"{run} is cancelled, but not everything has stopped yet:", *more)
    if run_status(run).state == "stopped" and read_parked_state(output) is None:
        write_parked_state(output, ParkedState(CANCELLED_REASON))
    messages = f"{done.dropped} message{'' if done.dropped == 1 else 's'}"
    print(f"cancelled {run}: {messages} dropped, no process works on it any more")
    print(f"go on with: {command_line('retry', run)}")
    return console.DONE
