"""Driving a run from a command, whatever its kind: its log, its signals, and how each end becomes an exit status."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from logging.handlers import RotatingFileHandler
from pathlib import Path

from orchestrator import exit_status
from orchestrator.dispatch.dispatcher import Parked
from orchestrator.farm.connection import StoreLost
from orchestrator.output import OutputFolder, OutputNotWritable
from orchestrator.runs.status import ParkedState, write_parked_state
from orchestrator.settings import SettingsError
from orchestrator.shell import command_line
from orchestrator.signals import Terminated
from tasks import logs

LOG_BYTES, OLD_LOGS = 10 * 2**20, 3


def drive(
    output: OutputFolder,
    work: Callable[[], None],
    *,
    close: Callable[[], None] = lambda: None,
    again: str = "the same command",
    raise_budget: str = "",
) -> int:
    """Do `work` to its end, and return the exit status; `close` is called before the reason is printed.

    `again` is what goes on beside `orchestrator retry`.  `raise_budget` is the option that gives a run more money,
    such as "--set BUDGET_USD=8".
    Raises: SettingsError, OutputError, FarmUnavailable; nothing was started then, or all was taken down.
    """
    retry = command_line("retry", output.path)
    try:
        work()
    except KeyboardInterrupt:
        close()
        return exit_status.fail(exit_status.INTERRUPTED, f"interrupted; {again} goes on, or: {retry}")
    except Terminated as ended:
        close()
        return exit_status.fail(exit_status.BY_SIGNAL + ended.number, f"{ended}; {again} goes on, or: {retry}")
    except Parked as parked:
        close()
        write_parked_state(output, ParkedState(parked.reason, parked.failures))
        return exit_status.fail(exit_status.PARKED, *parked_lines(parked, retry, raise_budget))
    except StoreLost as error:
        close()
        write_parked_state(output, ParkedState(str(error)))
        return exit_status.fail(exit_status.PARKED, f"parked: {error}", f"go on with: {retry}")
    except OutputNotWritable as error:
        close()
        # The reason cannot be written into the folder: `status` shows the run as stopped.
        return exit_status.fail(exit_status.PARKED, f"parked: {error}", f"make room, then go on with: {retry}")
    finally:
        close()
        output.close()
    return exit_status.DONE


def parked_lines(parked: Parked, retry: str, raise_budget: str) -> list[str]:
    """Why a run is parked, each error once, and how to go on with it."""
    first = parked.failures[0].error if parked.failures else ""
    more = [f"  {f.stage} of {f.node}: {f.error}" for f in parked.failures[1:] if f.error != first]
    if not parked.budget_exhausted:
        return [f"parked: {parked.reason}", *more, f"go on with: {retry}"]
    reason = first.partition(": ")[2] or parked.reason
    return [f"parked: {reason}", f"raise the budget to go on: {retry} {raise_budget}"]


def log_to(path: Path, level: str, also: Sequence[logging.Handler] = ()) -> None:
    """All that is logged goes to the run's log, of `LOG_BYTES` at most and `OLD_LOGS` older parts, and to `also`.

    Raises: SettingsError for an unknown format."""
    logging.raiseExceptions = False  # a full disk is reported once, by the run, and not for each line of the log
    try:
        own = RotatingFileHandler(path, maxBytes=LOG_BYTES, backupCount=OLD_LOGS, encoding="utf-8")
        logs.set_up([own, *also], level)
    except ValueError as error:  # of a format in the environment
        raise SettingsError([str(error)]) from None
