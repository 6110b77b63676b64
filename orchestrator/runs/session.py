"""A session of a run of any kind: `open_session` has the farm up, `Driving` turns each end into an exit status."""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

import redis

from orchestrator import console
from orchestrator.callbacks import Callbacks, EndState, RunEnd, RunInfo
from orchestrator.console import Terminated, command_line
from orchestrator.farm import FarmLost, FarmUnavailable, Parked, StoreLost, workers
from orchestrator.farm.connection import FarmConnection
from orchestrator.farm.dispatcher import Dispatcher
from orchestrator.report.live import Pace
from orchestrator.runs.folder import OutputFolder, OutputNotWritable, RunInUse, write_output
from orchestrator.runs.kinds import PROGRESS_FILE, ProgressFile, kind_of
from orchestrator.runs.status import PARKED_FILE, ParkedState, StatusPublisher, keep_versions, write_parked_state
from orchestrator.settings import SettingsError
from orchestrator.settings.documents import flatten
from orchestrator.settings.farm import FarmOptions
from tasks.common import logs
from tasks.common.files import NO_ROOM
from tasks.common.logs import SecretError
from tasks.common.text import first_line
from tasks.store.address import AddressError
from tasks.store.client import RunTaken
from tasks.store.keys import CANCELLED, LIMIT
from tasks.store.ownership import Held, Owner, RunLease
from tasks.store.retention import DAY_S, KEPT_S
from tasks.store.workers import code_version

log = logging.getLogger(__name__)
LOG_BYTES, OLD_LOGS = 10 * 2**20, 3
NO_PROGRESS_S = 60.0  # beyond the hard limit of a job, which is reported as that job's failure
PUBLISH_EVERY_S = 1.0
RENEW_S = 5.0
LEASE_S = 30.0  # without a renewal, before the lease of a process that is not visible from here is taken
POLL_S = 0.25

Notify = Callable[[str], None]


@dataclass
class Session:
    """The parts that all kinds share, once the farm is up; job_s: the hard limit of a job; unit: what `done` counts."""

    output: OutputFolder
    farm: FarmConnection
    run_id: str
    kind: str
    unit: str
    job_s: float
    dispatcher: Dispatcher
    publisher: StatusPublisher
    pace: Pace = field(default_factory=Pace)
    how_far: str = ""  # of the run, as in "12 of 40 batches, about 3 min 20 s left"
    _reported: float = float("-inf")

    @contextmanager
    def working(self, callbacks: Callbacks, settings: Any, options: FarmOptions, total: int) -> Iterator[None]:
        """Around the work: callbacks are told of it, and however it ends, that is published."""
        told = flatten({**dataclasses.asdict(settings), "farm": dataclasses.asdict(options)})
        done = kind_of(self.output.path).progress(self.output.path).done
        callbacks.start(RunInfo(self.run_id, self.kind, self.output.path, told, total, done))
        with self.publisher.publish_final_state():
            yield
            self.farm.store.release_shared(self.run_id)

    def report(self, progress: ProgressFile) -> None:
        """Publish how far the run is, and write it into the output folder."""
        self.output.write_json(PROGRESS_FILE, progress)
        done, total = progress["done"], progress["total"]
        self.publisher.publish({"done": done, "total": total, **progress["figures"]})
        self.how_far = self.pace.told(done, total, self.unit)
        self._reported = time.monotonic()

    def report_sometimes(self, progress: Callable[[], ProgressFile]) -> None:
        """As `report`, once a second; may be called as often as one likes."""
        if time.monotonic() - self._reported > PUBLISH_EVERY_S:
            self.report(progress())


class Ticker(logging.Handler):
    """Logs every text that comes when nothing has been logged for `QUIET_S` seconds; it must be entered."""

    def __init__(self) -> None:
        super().__init__()
        self._told = time.monotonic()

    def __enter__(self) -> Ticker:
        logging.getLogger().addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger().removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self._told = time.monotonic()

    def __call__(self, text: str) -> None:
        if time.monotonic() - self._told >= console.QUIET_S:
            self._told = time.monotonic()
            log.info("%s", text)


@contextmanager
def open_session(
    output: OutputFolder,
    kind: str,
    farm: AbstractContextManager[FarmConnection],
    model: str,
    *,
    unit: str,
    job_s: float,
    retry_wait_s: float = 0.0,
    only: Sequence[str] = (),
    budget_usd: float = 0.0,
    is_priced: bool = True,
    needs_rules: str = "",
    notify: Notify = log.warning,
    tick: Notify | None = None,
    **about: object,
) -> Iterator[Session]:
    """The farm is up for as long, the run is this process's own, and each line of the log has its id.

    `model` is the target that the run's workers must serve.  With nothing left but failures the run waits
    `retry_wait_s` for a retry before it parks; `only` names the failed tasks that are done again, all of them where it
    is empty.  `budget_usd` 0 is no limit; without known prices no cost is published.  `needs_rules` is the option that
    asks for the rules in place of a language model, "" where none does.  `tick` is told how far it is (`Dispatcher`),
    the log where it is None.  `unit` and `about` are published with every status.
    """
    run_id = output.run_id(kind)
    with (
        logs.fields(run=run_id),
        farm as opened,
        owned(opened, run_id, output.path, notify) as reached,
        Ticker() as ticker,
    ):
        if needs_rules and not reached.rules:
            raise FarmUnavailable(f'the farm has no embedded endpoint, and {needs_rules} is "embedded"')
        tick = tick or (lambda text: ticker("; ".join(filter(None, (session.how_far, text)))))
        dispatcher = Dispatcher(reached, run_id, job_s + NO_PROGRESS_S, retry_wait_s, notify, tuple(only), tick=tick)
        said = {"kind": kind, "unit": unit, **about}
        publisher = StatusPublisher(run_id, reached.store, output, said, budget_usd, is_priced)
        reached.store.retention.apply_rule(run_id, KEPT_S / DAY_S)
        reached.store.set_requirements(run_id, code_version(), model)
        reached.store.put_metadata(run_id, LIMIT, str(job_s))
        publisher.restore()
        keep_versions(output)
        output.remove(PARKED_FILE)  # not earlier: a start that is refused leaves the run parked
        try:
            session = Session(output, reached, run_id, kind, unit, job_s, dispatcher, publisher)
            yield session
        except (KeyboardInterrupt, Terminated):  # workers end what they have of it; the next session sends it again
            with suppress(redis.RedisError, FarmUnavailable):
                reached.store.put_metadata(run_id, CANCELLED, "1")
                workers.drop_waiting(reached.broker, run_id)
            raise


# One process at a time works on a run: it holds the run's lease in the store, beside the lock of its output folder.
# The lock keeps two processes out of one folder.  The lease, under the run's id, also keeps out a second folder with
# the same run, and a machine that does not see the lock.


@contextmanager
def owned(farm: FarmConnection, run_id: str, folder: Path, notify: Notify) -> Iterator[FarmConnection]:
    """The farm for this process; what it writes is refused once another one has taken the run over."""
    lease = RunLease(farm.store.redis, run_id, Owner.here(str(folder.resolve())))
    _take(lease, folder, notify)
    ended, lost = threading.Event(), threading.Event()
    threading.Thread(target=_renew, args=(lease, ended, lost), daemon=True, name=f"lease of {run_id}").start()

    def check() -> None:
        farm.check()
        if lost.is_set():
            held = lease.held()
            how = f"was taken over by {held}" if held else "was deleted from its farm, which has lost it"
            raise RunTaken(f"run {run_id} {how}")

    is_store_lost = False
    try:
        yield dataclasses.replace(farm, store=farm.store.of_owner(lease.owner.to_json()), check=check)
    except (redis.RedisError, FarmUnavailable):
        is_store_lost = True  # it would only be waited for once more; the next start sees that this process has ended
        raise
    finally:
        ended.set()
        if not is_store_lost:
            with suppress(redis.RedisError):
                lease.release()


def _take(lease: RunLease, folder: Path, notify: Notify) -> None:
    while not lease.take():
        held = lease.held()
        if held is None:
            continue
        if held.owner.is_visible:
            if not held.owner.has_ended():
                raise RunInUse(folder, str(held))
        elif not _has_fallen_silent(lease, held, folder, notify):
            continue
        if lease.take(replaced=held):
            log.info("the run is taken over from %s, which has ended", held)
            return


def _has_fallen_silent(lease: RunLease, held: Held, folder: Path, notify: Notify) -> bool:
    """Whether an owner that is not visible from here no longer renews its lease; False when it has given it up."""
    notify(f"{held} worked on this run and is not visible from here; waiting {LEASE_S:g} s whether it renews its lease")
    until = time.monotonic() + LEASE_S
    while time.monotonic() < until:
        time.sleep(POLL_S)  # nothing but time tells whether an owner on another machine still renews
        now = lease.held()
        if now is None:
            return False
        if now != held:
            raise RunInUse(folder, str(now))
    return True


def _renew(lease: RunLease, ended: threading.Event, lost: threading.Event) -> None:
    while not ended.wait(RENEW_S):
        with suppress(redis.RedisError, FarmUnavailable):  # the server is away for a while: it is tried again
            if not lease.renew() and not ended.is_set():
                lost.set()
                return


# How a command that drives a run ends.


@contextmanager
def restored_if_refused(settings: Path, *others: Path) -> Iterator[None]:
    """Around the start of a run: when it is refused, these files are again what they were.

    A farm that is lost later leaves the new settings, and a new run keeps what was written.
    """
    before = {path: path.read_bytes() for path in (settings, *others) if path.exists()}
    try:
        yield
    except (SettingsError, SecretError, AddressError, FarmUnavailable, RunInUse) as error:
        if settings in before and not isinstance(error, FarmLost):
            for path in {settings, *others} - {*before}:
                path.unlink(missing_ok=True)
            for path, data in before.items():
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
    """Around the work of a command that drives a run; how it ended is `ending` afterwards.

    `callbacks` are told while the folder is still locked; `close` is called when the work has ended.  `again` goes on
    beside `orchestrator retry`; `raise_budget` is an option such as "--set BUDGET_USD=8".
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
            state, status, lines = self._end(error)
            self.ending = Ending(status, lines)
            self.callbacks.end(RunEnd(state, (*lines, "")[0]), lambda line: console.fail(console.DONE, line))
            return state != "failed"
        finally:
            self.output.close()

    def _end(self, error: BaseException | None) -> tuple[EndState, int, tuple[str, ...]]:
        """How it ended, the exit status and the lines; the reason why a run parked is written."""
        retry = command_line("retry", self.output.path)
        going_on = f"{self.again} goes on, or: {retry}" if self.again else f"go on with: {retry}"
        match error:
            case None:
                return "finished", console.DONE, ()
            case Parked() | StoreLost() | OutputNotWritable():
                with suppress(OutputNotWritable):  # where it is the folder's own disk, `status` shows it as stopped
                    write_parked_state(self.output, ParkedState(str(error), getattr(error, "failures", ())))
                lines = [f"parked: {error}", f"go on with: {retry}"]
                if isinstance(error, OutputNotWritable):
                    lines[1] = f"make room, then {lines[1]}"
                if isinstance(error, Parked):
                    lines = parked_lines(error, retry, self.raise_budget)
                return "parked", console.PARKED, tuple(lines)
            case RunTaken():  # nothing is written into the folder: the run is the other process's
                return "stopped", console.IN_USE, (f"stopped: {error}",)
            case Terminated():
                return "stopped", console.BY_SIGNAL + error.number, (f"{error}; {going_on}",)
            case KeyboardInterrupt():
                return "stopped", console.INTERRUPTED, (f"interrupted; {going_on}",)
            case _:
                return "failed", console.BROKEN, (first_line(error),)


def parked_lines(parked: Parked, retry: str, raise_budget: str) -> list[str]:
    """Why a run is parked, each error once, and how to go on with it."""
    first = parked.failures[0].error if parked.failures else ""
    more = [f"  {f.stage} of {f.node}: {f.error}" for f in parked.failures[1:] if f.error != first]
    if not parked.budget_exhausted:
        return [f"parked: {parked.reason}", *more, f"go on with: {retry}"]
    reason = first.partition(": ")[2] or parked.reason
    return [f"parked: {reason}", f"raise the budget to go on: {retry} {raise_budget}"]


def log_to(path: Path, level: str, also: Sequence[logging.Handler] = ()) -> None:
    """All that is logged goes to the run's log, of `LOG_BYTES` at most and `OLD_LOGS` older parts, and to `also`."""
    logging.raiseExceptions = False  # a full disk is reported once, by the run, and not for each line of the log
    try:
        own = RotatingFileHandler(path, maxBytes=LOG_BYTES, backupCount=OLD_LOGS, encoding="utf-8")
        logs.set_up([own, *also], level)
    except ValueError as error:  # of a format in the environment
        raise SettingsError([str(error)]) from None
