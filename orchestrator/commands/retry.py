"""`orchestrator retry` and `cancel`: go on with a run, or stop it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import click

from orchestrator import console
from orchestrator.commands import options
from orchestrator.console import command_line


@options.command(drives=True)
@options.run_argument
@click.argument("tasks", metavar="[TASK...]", nargs=-1)
@options.set_option
@options.plain_option
def retry(run: Path, tasks: Sequence[str], overrides: Sequence[str], plain: bool) -> int:
    """Go on with a run that parked because a task failed for good, with the settings that it was started with.

    Only what is missing is done: finished results are kept.  Remove the cause of the failure first (`orchestrator
    failed RUN` shows the error); --set changes a setting that may change before a run is resumed: NAME=VALUE for an
    evolution (limits, timeouts, prices, the budget, the farm, and the reflector), a dotted key for the other kinds: of
    the YAML file, or farm.NAME for an option of the command line.  With another judge an evolution is refused, and all
    of a collection is judged again.

    With TASKs only those of the failed tasks are done again; a run with other failures then parks with them.  A TASK is
    the name of the individual (g2_child3_mut) or of the job, the task's id, or its first characters, as `orchestrator
    failed` lists them.

    A run that stopped where it would stop again (exit status 2, `orchestrator status RUN` says why) is not started.

    While another process drives the run, the failed tasks are sent to its farm again, and that process goes on.

    examples:
      orchestrator retry outputs/gpu                            everything that is missing
      orchestrator retry outputs/gpu g2_child3_mut              one individual's failed stage, and what follows from it
      orchestrator retry outputs/gpu --set BUDGET_USD=80        a run that parked because its money was spent
      orchestrator retry outputs/collect --set phase0.judge_concurrency=2
      orchestrator retry outputs/guide --set farm.budget_usd=5

    results: the run's output folder, as with the command that began it.
    exit status: that of the command that began the run; 0 also where failed tasks of a run at work were sent again; 1
    also where no failed task has such a name.
    """
    from orchestrator.runs.folder import OutputFolder
    from orchestrator.runs.kinds import kind_of
    from orchestrator.runs.lifecycle import failed_of, select_failures
    from orchestrator.runs.status import DEAD_END, is_locked, read_parked_state

    _, kind = kind_of(run)
    if is_locked(run):
        return _retry_running(run, tasks)
    if tasks:
        select_failures(failed_of(run), tasks)
    parked = read_parked_state(OutputFolder(run))
    if parked and parked.is_dead_end:
        return console.fail(console.BROKEN, parked.reason, DEAD_END)
    return kind.resume(run, overrides, tasks, plain=plain)


def _retry_running(folder: Path, names: Sequence[str]) -> int:
    """Send failed tasks again, for the process that drives the run to go on with."""
    from orchestrator.runs.folder import own_run_id
    from orchestrator.runs.lifecycle import reach_farm_of, retry_failed

    with reach_farm_of(folder) as farm:
        sent = retry_failed(farm.app, farm.store, own_run_id(folder), names)
    named = ", ".join(f"{failure.stage} of {failure.node} (task {failure.task})" for failure in sent)
    print(f"sent again: {named}" if sent else f"nothing has failed in {folder}; the run is running")
    return console.DONE


@options.command()
@options.run_argument
def cancel(run: Path) -> int:
    """Stop a run, from any terminal or machine that sees its output folder: its driver parks (exit 3), its messages are
    removed from the queues, and workers end its tasks as soon as the answer or the call that they wait for arrives.

    Nothing that was finished is lost: `orchestrator retry RUN` goes on with it.

    examples:
      orchestrator cancel outputs/gpu
      orchestrator runs --delete outputs/gpu      afterwards, to leave nothing of it on the farm

    results: the folder keeps all that was finished; standard output says how many messages were dropped.

    exit status: 0 stopped; 1 the folder holds no run, or neither it nor its farm is at work; 2 something still works
    on it, or its farm cannot be reached.
    """
    from orchestrator.farm import FarmUnavailable, StoreLost
    from orchestrator.farm.dispatcher import CANCELLED_REASON
    from orchestrator.runs.folder import OutputFolder, own_run_id
    from orchestrator.runs.lifecycle import cancel, reach_farm_of
    from orchestrator.runs.status import ParkedState, is_locked, read_parked_state, run_status, write_parked_state

    run_id, output, was_locked = own_run_id(run), OutputFolder(run), is_locked(run)
    try:
        with reach_farm_of(run) as farm:
            done = cancel(farm, run, run_id, time.sleep)
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
