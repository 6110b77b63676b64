"""`orchestrator retry`: go on with a run that parked or was stopped, or have some of its failed tasks done again."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from orchestrator import console
from orchestrator.commands import common

DESCRIPTION = """\
Go on with a run that parked because a task failed for good, with the settings that it was started with.

Only what is missing is done: finished results are kept.  Remove the cause of the failure first (`orchestrator failed
RUN` shows the error); --set changes a setting that may change before a run is resumed: NAME=VALUE for an
evolution (limits, timeouts, prices, the budget, the farm, and the reflector), a dotted key for the other kinds: of the
YAML file, or farm.NAME for an option of the command line.  With another judge an evolution is refused,
and all of a collection is judged again.

With TASKs only those of the failed tasks are done again; a run with other failures then parks with them.  A TASK is
the name of the individual (g2_child3_mut) or of the job, the task's id, or its first characters, as `orchestrator
failed` lists them.

A run that stopped where it would stop again (exit status 2, `orchestrator status RUN` says why) is not started.

While another process drives the run, the failed tasks are sent to its farm again, and that process goes on."""

EPILOG = """\
examples:
  orchestrator retry outputs/gpu                            everything that is missing
  orchestrator retry outputs/gpu g2_child3_mut              one individual's failed stage, and what follows from it
  orchestrator retry outputs/gpu --set BUDGET_USD=80        a run that parked because its money was spent
  orchestrator retry outputs/collect --set phase0.judge_concurrency=2
  orchestrator retry outputs/guide --set farm.budget_usd=5

results: the run's output folder, as with the command that began it.
exit status: that of the command that began the run; 0 also where failed tasks of a run at work were sent again; 1 also
where no failed task has such a name."""


def make_parser() -> argparse.ArgumentParser:
    parser = common.parser_for("retry", DESCRIPTION, EPILOG, common.InterleavingParser)
    common.add_run(parser)
    parser.add_argument("tasks", metavar="TASK", nargs="*", help="a failed task (all of them)")
    common.add_set(parser, "set one option")
    parser.add_argument("--plain", action="store_true", help="plain lines, also in a terminal")
    return parser


def run(arguments: argparse.Namespace) -> int:
    return common.handle_errors(lambda: retry(arguments), full_disk=console.PARKED)


def retry(arguments: argparse.Namespace) -> int:
    from orchestrator.farm.retry import select_failures
    from orchestrator.runs.folder import OutputFolder
    from orchestrator.runs.kinds import kind_of
    from orchestrator.runs.lifecycle import failed_of
    from orchestrator.runs.status import DEAD_END, is_locked, read_parked_state

    _, kind = kind_of(arguments.run)
    if is_locked(arguments.run):
        return retry_running(arguments.run, arguments.tasks)
    if arguments.tasks:
        select_failures(failed_of(arguments.run), arguments.tasks)
    parked = read_parked_state(OutputFolder(arguments.run))
    if parked and parked.is_dead_end:
        return console.fail(console.BROKEN, parked.reason, DEAD_END)
    return kind.resume(arguments.run, arguments.overrides, arguments.tasks, plain=arguments.plain)


def retry_running(folder: Path, names: Sequence[str]) -> int:
    """Send failed tasks again, for the process that drives the run to go on with."""
    from orchestrator.farm.retry import retry_failed
    from orchestrator.runs.folder import own_run_id
    from orchestrator.runs.lifecycle import reach_farm_of

    with reach_farm_of(folder) as farm:
        sent = retry_failed(farm.app, farm.store, own_run_id(folder), names)
    named = ", ".join(f"{failure.stage} of {failure.node} (task {failure.task})" for failure in sent)
    print(f"sent again: {named}" if sent else f"nothing has failed in {folder}; the run is running")
    return console.DONE
