"""`orchestrator retry`: go on with a run that parked or was stopped, or have some of its failed tasks done again."""

from __future__ import annotations

import argparse
from pathlib import Path

from orchestrator.commands import common
from orchestrator.commands.evolve import evolve
from orchestrator.output import OutputFolder, run_id_of
from orchestrator.settings import load_settings

DESCRIPTION = """\
Go on with a run that parked because a task failed for good, with the settings that it was started with.

Only what is missing is done: finished evaluations, verdicts and reflections are kept.  Mend what made the task fail
first (`orchestrator failed RUN` shows the error); --set changes an option that does not alter results.

With TASKs only those of the failed tasks are done again; a run with other failures then parks with them.  A TASK is
the name of the individual (g2_child3_mut), the task's id, or its first characters, as `orchestrator failed` lists them.

While the run is at work in another process, the failed tasks are sent to its farm again, and that process goes on."""

EPILOG = """\
examples:
  orchestrator retry outputs/gpu                            everything that is missing
  orchestrator retry outputs/gpu g2_child3_mut              one individual's failed stage, and what follows from it
  orchestrator retry outputs/gpu --set BUDGET_USD=80        a run that parked because its money was spent"""


def make_parser() -> argparse.ArgumentParser:
    parser = common.parser_for("retry", DESCRIPTION, EPILOG)
    parser.add_argument("run", metavar="RUN", type=Path, help="the run's output folder")
    parser.add_argument("tasks", metavar="TASK", nargs="*", help="a failed task (all of them)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", dest="overrides", help="set one option"
    )
    parser.add_argument("--plain", action="store_true", help="plain lines, also in a terminal")
    return parser


def run(arguments: argparse.Namespace) -> int:
    return common.handle_errors(lambda: retry(arguments))


def retry(arguments: argparse.Namespace) -> int:
    from orchestrator.dispatch.failures import NoSuchTask, chosen
    from orchestrator.runs.status import failed_of, is_locked

    output = OutputFolder(arguments.run)
    run_id = run_id_of(arguments.run)
    settings = load_settings(output.config, [f"OUTPUT_DIR={arguments.run}", *arguments.overrides])
    try:
        if is_locked(arguments.run):
            return retry_at_work(arguments, run_id)
        if arguments.tasks:
            chosen(failed_of(arguments.run), arguments.tasks)
    except NoSuchTask as error:
        return common.fail(common.WRONG, str(error))
    return evolve(settings, fresh=False, plain=arguments.plain, only=arguments.tasks)


def retry_at_work(arguments: argparse.Namespace, run_id: str) -> int:
    """Send failed tasks again, for the process that is at the run to go on with.  Raises: NoSuchTask."""
    from orchestrator.dispatch.failures import retry_failed
    from orchestrator.farm.connection import reach_farm_of

    with reach_farm_of(arguments.run) as farm:
        sent = retry_failed(farm.app, farm.store, run_id, arguments.tasks)
    for one in sent:
        print(f"sent again: {one.stage} of {one.node} (task {one.task})")
    if not sent:
        print(f"nothing has failed in {arguments.run}; the run is at work")
    return common.DONE
