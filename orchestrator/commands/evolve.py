"""`orchestrator evolve`: run the evolution, or go on with it."""

from __future__ import annotations

import argparse
import logging
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.commands import common
from orchestrator.output import OutputFolder, OutputNotWritable
from orchestrator.settings import Settings, SettingsError
from orchestrator.signals import Terminated, raise_on_sigterm
from tasks import logs

if TYPE_CHECKING:
    from orchestrator.dispatch.evaluator import Parked

DESCRIPTION = """\
Run the evolution that a .config describes, or go on with it.

The run lives in its output folder: the same command goes on where a run was stopped, by Ctrl+C, by a crash or by a
power cut, and repeats no evaluation and no call that was finished.  With CONFIG_FARM="embedded" the farm is started
and taken down with the run; with "external" the workers at CONFIG_REDIS_URL do the work."""

EPILOG = """\
examples:
  orchestrator evolve --config configs/embedded.config
  orchestrator evolve --config configs/embedded.config --set NGEN=6 --output outputs/longer
  orchestrator evolve --config configs/gpu.config --set GPU_SLOTS=8"""


def make_parser() -> argparse.ArgumentParser:
    parser = common.parser_for("evolve", DESCRIPTION, epilog=EPILOG)
    common.add_settings(parser)
    parser.add_argument("--fresh", action="store_true", help="set aside the run that the output folder holds")
    parser.add_argument("--plain", action="store_true", help="plain lines, also in a terminal")
    return parser


def run(arguments: argparse.Namespace) -> int:
    def work() -> int:
        return evolve(common.read_settings(arguments), fresh=arguments.fresh, plain=arguments.plain)

    return common.handle_errors(work)


def evolve(settings: Settings, *, fresh: bool, plain: bool, only: Sequence[str] = ()) -> int:
    """Run, tell how it went, and return the exit status.  Of what has failed, `only` names what is to be retried.

    Raises: SettingsError, OutputError, FarmUnavailable; nothing was started then, or all was taken down.
    """
    # Here, since these need Celery and DEAP: the checks above answer at once.
    from orchestrator.dispatch.evaluator import Parked
    from orchestrator.farm.connection import open_farm
    from orchestrator.report.summary import final_report
    from orchestrator.report.view import open_view
    from orchestrator.runs.runner import Session, check_resumable
    from orchestrator.runs.setup import choose_examples
    from orchestrator.runs.status import ParkedState, clear_parked_state, write_parked_state

    examples = choose_examples(settings)
    output = OutputFolder(settings.output_dir)
    if fresh and (aside := output.rotate()):
        print(f"the earlier run is now in {aside}")
    check_resumable(output, settings)
    output.open()
    clear_parked_state(output)
    _log_to(output.log, settings.log_level)
    raise_on_sigterm()
    view = open_view(sys.stdout, force="plain" if plain else None)
    go_on = f"orchestrator retry {output.path}"
    try:
        report = Session(settings, examples, output, view, open_farm, tuple(only)).run()
        text = final_report(report, random.Random(f"report {settings.seed}"))
        output.write("report.txt", text + "\n")
    except KeyboardInterrupt:
        view.close()
        return common.fail(common.INTERRUPTED, f"interrupted; the same command goes on, or: {go_on}")
    except Terminated:
        view.close()
        return common.fail(common.TERMINATED, f"terminated; the same command goes on, or: {go_on}")
    except Parked as parked:
        view.close()
        write_parked_state(output, ParkedState(parked.reason, parked.failures))
        return common.fail(common.PARKED, *parked_lines(parked, go_on, settings.budget_usd))
    except OutputNotWritable as error:
        view.close()
        # Nothing can be said in the folder itself: that the run stands still is all that is there to be seen.
        return common.fail(common.PARKED, f"parked: {error}", f"make room, then go on with: {go_on}")
    finally:
        view.close()
        output.close()
    print(text)
    return common.DONE


def parked_lines(parked: Parked, go_on: str, budget_usd: float) -> list[str]:
    """Why a run is parked, each error once, and how to go on with it."""
    first = parked.failures[0].error if parked.failures else ""
    more = [f"  {f.stage} of {f.node}: {f.error}" for f in parked.failures[1:] if f.error != first]
    if not parked.budget_exhausted:
        return [f"parked: {parked.reason}", *more, f"go on with: {go_on}"]
    reason = first.partition(": ")[2] or parked.reason
    return [f"parked: {reason}", f"raise the budget to go on: {go_on} --set BUDGET_USD={2 * budget_usd:g}"]


def _log_to(path: Path, level: str) -> None:
    """Everything that is logged goes to the run's log, and nothing of it to the terminal."""
    logging.raiseExceptions = False  # a full disk is told once, by the run, and not for each line of the log
    try:
        logs.set_up([logging.FileHandler(path, encoding="utf-8")], level)
    except ValueError as error:  # of a format in the environment
        raise SettingsError([str(error)]) from None
