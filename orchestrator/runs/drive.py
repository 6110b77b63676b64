"""Driving a run from a command, whatever its kind: its log, its signals, and how each end becomes an exit status."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from logging.handlers import RotatingFileHandler
from pathlib import Path

from orchestrator import console
from orchestrator.callbacks import (
    Callback,
    Callbacks,
    EndState,
    RunEnd,
    load_callbacks,
    names_of,
)
from orchestrator.console import Terminated, command_line
from orchestrator.farm import StoreLost
from orchestrator.farm.dispatcher import Parked
from orchestrator.runs.folder import OutputFolder, OutputNotWritable
from orchestrator.runs.status import ParkedState, write_parked_state
from orchestrator.settings import SettingsError
from orchestrator.trackers import make_trackers
from tasks.common import logs
from tasks.common.files import NO_ROOM
from tasks.common.text import first_line
from tasks.store.ownership import RunTaken

LOG_BYTES, OLD_LOGS = 10 * 2**20, 3


@dataclass(frozen=True)
class Ending:
    """How a session ended: the exit status of its command, and the lines that say why, none where all is done."""

    status: int
    lines: tuple[str, ...] = ()

    def exit(self) -> int:
        """Print the lines to standard error and return the status."""
        return console.fail(self.status, *self.lines)


def drive(
    output: OutputFolder,
    work: Callable[[], None],
    callbacks: Callbacks,
    *,
    close: Callable[[], None] = lambda: None,
    again: str = "the same command",
    raise_budget: str = "",
) -> Ending:
    """Do `work` to its end; `close` is called when it has ended.

    `callbacks` are told how it ended, while the folder is still locked.

    `again` is what goes on beside `orchestrator retry`, "" where nothing does.  `raise_budget` is the option that gives
    a run more money, such as "--set BUDGET_USD=8".
    """
    try:
        with _parking_on_a_full_disk():
            work()
    except (KeyboardInterrupt, Terminated, Parked, RunTaken, StoreLost, OutputNotWritable) as error:
        close()
        ending = _ending(error, output, again, raise_budget)
        callbacks.end(RunEnd(_end_state(error), ending.lines[0]), _warn)
        return ending
    except BaseException as error:
        close()
        callbacks.end(RunEnd("failed", first_line(error)), _warn)
        raise
    else:
        close()
        callbacks.end(RunEnd("finished"), _warn)
    finally:
        close()
        output.close()
    return Ending(console.DONE)


@contextmanager
def _parking_on_a_full_disk() -> Iterator[None]:
    """Whichever disk takes no more, also the farm's."""
    try:
        yield
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        where = f"{error.filename} cannot be written: " if error.filename else ""
        raise OutputNotWritable(f"{where}{error.strerror}", is_full=True) from None


def _warn(line: str) -> None:
    console.fail(console.DONE, line)


def _end_state(error: BaseException) -> EndState:
    """What `orchestrator status` says of the run afterwards."""
    return "parked" if isinstance(error, Parked | StoreLost | OutputNotWritable) else "stopped"


def _ending(error: BaseException, output: OutputFolder, again: str, raise_budget: str) -> Ending:
    """How a run ended early; the reason why it parked is written."""
    retry, status = command_line("retry", output.path), console.PARKED
    going_on = f"{again} goes on, or: {retry}" if again else f"go on with: {retry}"
    match error:
        case Parked():
            write_parked_state(output, ParkedState(error.reason, error.failures))
            lines = parked_lines(error, retry, raise_budget)
        case StoreLost():
            write_parked_state(output, ParkedState(str(error)))
            lines = [f"parked: {error}", f"go on with: {retry}"]
        case OutputNotWritable():
            with suppress(OutputNotWritable):  # where it is the folder's own disk, `status` shows the run as stopped
                write_parked_state(output, ParkedState(str(error)))
            lines = [f"parked: {error}", f"make room, then go on with: {retry}"]
        case RunTaken():
            # Nothing is written into the folder: the run is the other process's.
            status, lines = console.IN_USE, [f"stopped: {error}"]
        case Terminated():
            status, lines = console.BY_SIGNAL + error.number, [f"{error}; {going_on}"]
        case _:
            status, lines = console.INTERRUPTED, [f"interrupted; {going_on}"]
    return Ending(status, tuple(lines))


def parked_lines(parked: Parked, retry: str, raise_budget: str) -> list[str]:
    """Why a run is parked, each error once, and how to go on with it."""
    first = parked.failures[0].error if parked.failures else ""
    more = [f"  {f.stage} of {f.node}: {f.error}" for f in parked.failures[1:] if f.error != first]
    if not parked.budget_exhausted:
        return [f"parked: {parked.reason}", *more, f"go on with: {retry}"]
    reason = first.partition(": ")[2] or parked.reason
    return [f"parked: {reason}", f"raise the budget to go on: {retry} {raise_budget}"]


def settings_callbacks(text: str, option: str) -> tuple[Callback, ...]:
    """The callbacks that a setting names."""
    try:
        return load_callbacks(names_of(text))
    except ValueError as error:
        raise SettingsError([f"{option}: {error}"]) from None


def settings_trackers(text: str) -> tuple[Callback, ...]:
    """The trackers that CONFIG_TRACKERS names."""
    try:
        return make_trackers(names_of(text))
    except ImportError as error:
        raise SettingsError([f"CONFIG_TRACKERS: {error}"]) from None


def log_to(path: Path, level: str, also: Sequence[logging.Handler] = ()) -> None:
    """All that is logged goes to the run's log, of `LOG_BYTES` at most and `OLD_LOGS` older parts, and to `also`."""
    logging.raiseExceptions = False  # a full disk is reported once, by the run, and not for each line of the log
    try:
        own = RotatingFileHandler(path, maxBytes=LOG_BYTES, backupCount=OLD_LOGS, encoding="utf-8")
        logs.set_up([own, *also], level)
    except ValueError as error:  # of a format in the environment
        raise SettingsError([str(error)]) from None
