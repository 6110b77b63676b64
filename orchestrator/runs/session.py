"""A session of a run of any kind: from an open output folder to an exit status.

`Driving` surrounds the whole and turns each end into an exit status; `open_session` has the farm up, the run this
process's own, and what every kind sends, publishes and notes in the same way.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from logging.handlers import RotatingFileHandler
from pathlib import Path

from orchestrator import console
from orchestrator.callbacks import Callback, Callbacks, EndState, RunEnd, RunInfo, load_callbacks, names_of
from orchestrator.console import Terminated, command_line
from orchestrator.farm import FarmLost, FarmUnavailable, StoreLost
from orchestrator.farm.connection import FarmConnection
from orchestrator.farm.dispatcher import Dispatcher, Parked, WaitLimits
from orchestrator.farm.work import Scheduler
from orchestrator.runs.folder import OutputFolder, OutputNotWritable, RunInUse, write_output
from orchestrator.runs.kinds import PROGRESS_FILE, ProgressFile
from orchestrator.runs.ownership import owned
from orchestrator.runs.preflight import keep_versions
from orchestrator.runs.status import ParkedState, StatusPublisher, clear_parked_state, write_parked_state
from orchestrator.settings import SettingsError
from orchestrator.trackers import make_trackers
from tasks.common import logs
from tasks.common.files import NO_ROOM
from tasks.common.logs import SecretError
from tasks.common.text import first_line
from tasks.store.address import AddressError
from tasks.store.client import RunTaken
from tasks.store.keys import LIMIT
from tasks.store.retention import DAY_S, KEPT_S
from tasks.store.workers import code_version

log = logging.getLogger(__name__)
LOG_BYTES, OLD_LOGS = 10 * 2**20, 3
NO_PROGRESS_S = 60.0  # beyond the hard limit of a job, which is reported as that job's failure
PUBLISH_EVERY_S = 1.0

Notify = Callable[[str], None]


@dataclass(frozen=True)
class JobLimits:
    """Of the jobs of one session.

    `job_s` is the hard limit of one.  With nothing left but failures the run waits `retry_wait_s` for a retry before it
    parks; `only` names the failed tasks that are done again, all of them where it is empty.
    """

    job_s: float
    retry_wait_s: float = 0.0
    only: tuple[str, ...] = ()


@dataclass(frozen=True)
class Budget:
    """What a run may cost, 0 for no limit; without known prices no cost is published."""

    usd: float = 0.0
    is_priced: bool = True


@dataclass
class Session:
    """The parts that all kinds share, once the farm is up."""

    output: OutputFolder
    farm: FarmConnection
    run_id: str
    kind: str
    limits: JobLimits
    dispatcher: Dispatcher
    publisher: StatusPublisher
    _reported: float = float("-inf")

    def scheduler(self, in_flight: Mapping[str, int], *, goes_on: bool = False) -> Scheduler:
        """The one scheduler of the session; see there."""
        return Scheduler(self.dispatcher, in_flight, goes_on)

    def require_rules(self, option: str, is_embedded: bool) -> None:
        """Refuse a farm whose workers call a real endpoint where the option asks for the rules."""
        if is_embedded and not self.farm.rules:
            raise FarmUnavailable(f'the farm has no embedded endpoint, and {option} is "embedded"')

    def begin(self, model: str) -> None:
        """Put the run into the store.  `model` is the target that its workers must serve."""
        store = self.farm.store
        store.retention.apply_rule(self.run_id, KEPT_S / DAY_S)
        store.set_requirements(self.run_id, code_version(), model)
        store.put_metadata(self.run_id, LIMIT, str(self.limits.job_s))
        self.publisher.restore()
        keep_versions(self.output)
        clear_parked_state(self.output)  # not earlier: a start that is refused leaves the run parked

    @contextmanager
    def working(self, callbacks: Callbacks, settings: Mapping[str, object], total: int) -> Iterator[None]:
        """Around the work: callbacks are told of it, and however it ends, that is published."""
        callbacks.start(RunInfo(self.run_id, self.kind, self.output.path, settings, total))
        with self.publisher.publish_final_state():
            yield
            self.farm.store.release_shared(self.run_id)

    def report(self, progress: ProgressFile) -> None:
        """Publish how far the run is, and write it into the output folder."""
        self.output.write_state(PROGRESS_FILE, progress)
        self.publisher.publish({"done": progress["done"], "total": progress["total"], **progress["figures"]})
        self._reported = time.monotonic()

    def report_sometimes(self, progress: Callable[[], ProgressFile]) -> None:
        """As `report`, once a second; may be called as often as one likes."""
        if time.monotonic() - self._reported > PUBLISH_EVERY_S:
            self.report(progress())


@contextmanager
def open_session(
    output: OutputFolder,
    kind: str,
    unit: str,
    farm: AbstractContextManager[FarmConnection],
    limits: JobLimits,
    budget: Budget = Budget(),  # frozen
    notify: Notify = log.warning,
    **about: object,
) -> Iterator[Session]:
    """The farm is up for as long, the run is this process's own, and each line of the log has its id.

    `about` is published with every status.
    """
    run_id = output.run_id(kind)
    with (
        logs.fields(run=run_id),
        farm as opened,
        owned(opened, run_id, output.path, notify) as reached,
    ):
        waiting = WaitLimits(limits.job_s + NO_PROGRESS_S, limits.retry_wait_s)
        dispatcher = Dispatcher(reached, run_id, waiting, notify, limits.only)
        said = {"kind": kind, "unit": unit, **about}
        publisher = StatusPublisher(run_id, reached.store, output, said, budget.usd, budget.is_priced)
        yield Session(output, reached, run_id, kind, limits, dispatcher, publisher)


@contextmanager
def restored_if_refused(settings: Path, *others: Path) -> Iterator[None]:
    """Around the start of a run: when it is refused, these files are again what they were.

    It is refused for its settings, because another process works on it, or because its farm has no address or cannot be
    reached.  A farm that is lost later leaves the new settings.  Without an earlier file `settings` the run is a new
    one, and keeps what was written.
    """
    before = {path: path.read_bytes() if path.exists() else None for path in (settings, *others)}
    try:
        yield
    except FarmLost:
        raise
    except (SettingsError, SecretError, AddressError, FarmUnavailable, RunInUse):
        if before[settings] is not None:
            for path, data in before.items():
                if data is None:
                    path.unlink(missing_ok=True)
                else:
                    write_output(path, data)
        raise


@dataclass(frozen=True)
class Ending:
    """How a session ended: the exit status of its command, and the lines that say why, none where all is done."""

    status: int
    lines: tuple[str, ...] = ()

    def exit(self, result: object = None) -> int:
        """Print the lines to standard error, or where all is done the result; return the status."""
        if self.status == console.DONE and result is not None:
            print(result)
        return console.fail(self.status, *self.lines)


class Driving:
    """Around the work of a command that drives a run: `with Driving(output, callbacks) as driving: ...`.

    How it ended is `ending` afterwards, unless an error of the program or of the farm comes out of the block.
    `callbacks` are told, while the folder is still locked; `close` is called when the work has ended.

    `again` is what goes on beside `orchestrator retry`, "" where nothing does.  `raise_budget` is the option that gives
    a run more money, such as "--set BUDGET_USD=8".
    """

    def __init__(
        self,
        output: OutputFolder,
        callbacks: Callbacks,
        *,
        close: Callable[[], None] = lambda: None,
        again: str = "the same command",
        raise_budget: str = "",
    ) -> None:
        self.output, self.callbacks, self.close = output, callbacks, close
        self.again, self.raise_budget = again, raise_budget
        self.ending = Ending(console.DONE)

    def __enter__(self) -> Driving:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        try:
            self.close()
            if isinstance(error, OSError) and error.errno in NO_ROOM:  # whichever disk takes no more, also the farm's
                where = f"{error.filename} cannot be written: " if error.filename else ""
                error = OutputNotWritable(f"{where}{error.strerror}", is_full=True)
            match error:
                case None:
                    self._tell("finished")
                case Parked() | StoreLost() | OutputNotWritable():
                    self.ending = _ending(error, self.output, self.again, self.raise_budget)
                    self._tell("parked", self.ending.lines[0])
                case KeyboardInterrupt() | Terminated() | RunTaken():
                    self.ending = _ending(error, self.output, self.again, self.raise_budget)
                    self._tell("stopped", self.ending.lines[0])
                case _:
                    self._tell("failed", first_line(error))
                    return False
            return True
        finally:
            self.output.close()

    def _tell(self, state: EndState, reason: str = "") -> None:
        def warn(line: str) -> None:
            console.fail(console.DONE, line)

        self.callbacks.end(RunEnd(state, reason), warn)


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
