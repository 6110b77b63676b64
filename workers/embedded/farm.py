"""The embedded farm: its settings, its files, its state, and how another process starts, finds and stops it.

A farm is identified by its folder.  A farm that was started by `start` belongs to the process that started it and ends
with it, also when that is killed; a farm that was started by `up` stays up until `down`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import fcntl
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict, cast

import psutil

from tasks.common.files import private_folder, write_atomic
from workers.embedded import valkey
from workers.embedded.endpoint import ENDPOINT_SOCKET
from workers.embedded.sockets import remove_farm_socket
from workers.processes import (
    ChildProcess,
    Command,
    PidRecord,
    PidRecords,
    ProcessFailed,
    is_full,
    log_tail,
    read_own_file,
    record_of,
)

FARM_VARIABLE = "WHETSTONE_FARM"
STOP_S = 20.0  # more than the supervisor's own grace periods together
LEFTOVER_GRACE_S = 3.0


class FarmError(RuntimeError):
    """The farm could not be started: one line, then the last lines of the log with the reason."""


@dataclass(frozen=True)
class FarmSpec:
    """The settings of an embedded farm. `folder` holds its data and logs and is kept when the farm stops.

    With `embedded_endpoint` the farm has an endpoint that answers by rules; otherwise OPENAI_API_KEY and
    OPENAI_BASE_URL of the environment are used.  `visibility_timeout`, in seconds, is how soon a killed worker's
    tasks return to their queue.
    """

    folder: str
    gpu_slots: int = 1
    openai_workers: int = 1
    openai_threads: int = 8
    cpu_workers: int = 2
    log_level: str = "INFO"
    embedded_endpoint: bool = True
    visibility_timeout: float = 10.0
    offline: bool = True  # Hugging Face's libraries do not use the network
    ready_timeout_s: float = 120.0

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), indent=1, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> FarmSpec:
        return cls(**json.loads(text))


class FarmState(TypedDict):
    """farm.json: what is read of it."""

    redis_url: str
    endpoint_url: str | None
    started: str


class FarmFiles:
    """The paths of a farm's files, and what the files and processes show."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.spec = folder / "spec.json"
        self.state = folder / "farm.json"  # the addresses of a farm that is up, written when all of it is ready
        self.owner = folder / "owner.json"  # its process; absent for a farm that stays up until `down`
        self.supervisor = folder / "supervisor.json"
        self.pids = folder / "pids.json"  # the supervisor's child processes
        self.target_pids = folder / "target-gpu.json"  # the gpu worker's target server
        self.error = folder / "error.txt"  # why the farm stopped by itself
        self.lock = folder / "lock"
        self.logs = folder / "logs"

    def records(self) -> list[PidRecord]:
        """All processes of the farm, the supervisor first."""
        return [r for path in (self.supervisor, self.pids, self.target_pids) for r in PidRecords(path).read()]

    @property
    def is_supervised(self) -> bool:
        return any(record.is_alive() for record in PidRecords(self.supervisor).read())

    def living_owner(self) -> PidRecord | None:
        """The process that the farm belongs to, if there is one and it runs."""
        found = read_own_file(self.owner)
        owner = PidRecord(**found) if found else None
        return owner if owner and owner.is_alive() else None

    def read_state(self) -> FarmState | None:
        """The farm's addresses and start time, if it is up."""
        return cast("FarmState | None", read_own_file(self.state)) if self.is_supervised else None

    def error_text(self) -> str | None:
        """Why the farm stopped by itself, with the last lines of the log; None when it did not."""
        try:
            return self.error.read_text(errors="replace")
        except FileNotFoundError:
            return None


@dataclass(frozen=True)
class Addresses:
    """Addresses of a farm; `endpoint_url` names a Unix socket, and is None when the farm has no endpoint of its own."""

    redis_url: str
    endpoint_url: str | None


@dataclass(frozen=True)
class ProcessStatus:
    """One process of the farm, with its children; `rss` is their resident memory together, in bytes."""

    name: str
    pid: int
    alive: bool
    rss: int


@dataclass(frozen=True)
class FarmStatus:
    """Whether the farm is up, its owner (None: it stays up until `down`), its addresses and its processes."""

    up: bool
    owner_pid: int | None
    redis_url: str | None
    endpoint_url: str | None
    started: str | None
    processes: tuple[ProcessStatus, ...]


def status(folder: Path) -> FarmStatus:
    """The state of the farm in `folder`; changes nothing."""
    files = FarmFiles(folder)
    state, owner = files.read_state(), files.living_owner()
    return FarmStatus(
        up=state is not None,
        owner_pid=owner.pid if owner else None,
        redis_url=state["redis_url"] if state else None,
        endpoint_url=state["endpoint_url"] if state else None,
        started=state["started"] if state else None,
        processes=tuple(_process_status(record) for record in files.records()),
    )


def _process_status(record: PidRecord) -> ProcessStatus:
    rss = 0
    for process in record.members():
        with contextlib.suppress(psutil.NoSuchProcess):
            rss += psutil.Process(process.pid).memory_info().rss
    return ProcessStatus(record.name, record.pid, record.is_alive(), rss)


@dataclass
class Farm:
    """A farm that is up. As a context manager it is stopped at the end when this process owns it."""

    folder: Path
    redis_url: str
    endpoint_url: str | None
    _supervisor: ChildProcess | None  # of an owned farm,
    _pipe: int | None  # which stops when this is closed

    @property
    def owned(self) -> bool:
        return self._supervisor is not None

    @property
    def alive(self) -> bool:
        """Whether its supervisor still runs."""
        return self._supervisor.alive if self._supervisor else FarmFiles(self.folder).is_supervised

    def failure(self) -> str | None:
        """Why the farm stopped by itself, with the last lines of the log; None when it did not."""
        return FarmFiles(self.folder).error_text()

    def stop(self) -> None:
        """Stop an owned farm and wait until all its processes have ended; leave others up. May be called twice."""
        if self._supervisor is None:
            return
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None
        self._supervisor.wait_end(STOP_S)
        with _locked(self.folder, is_own=True) as files:
            self._supervisor.stop(0)
            _clear(files)

    def __enter__(self) -> Farm:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def start(spec: FarmSpec) -> Farm:
    """Start a farm that belongs to this process and ends with it, even when this process is killed."""
    reading, writing = os.pipe()
    try:
        return _start(spec, reading, writing)
    except BaseException:
        os.close(writing)
        raise
    finally:
        os.close(reading)


def up(spec: FarmSpec) -> Farm:
    """Start a farm that stays up until `down`."""
    return _start(spec, None, None)


def attach(folder: Path) -> Farm | None:
    """The farm that was started by `up` in `folder`, or None."""
    with _locked(folder) as files:
        state = files.read_state()
        return Farm(folder, state["redis_url"], state["endpoint_url"], None, None) if state else None


def attach_or_start(spec: FarmSpec) -> Farm:
    """The farm that is up in the spec's folder, or else a new one of this process."""
    return attach(Path(spec.folder)) or start(spec)


def down(folder: Path) -> bool:
    """Stop the farm in `folder`, and end what a killed one left running. Returns whether anything was running."""
    with _locked(folder) as files:
        return _clear(files)


def _start(spec: FarmSpec, reading: int | None, writing: int | None) -> Farm:
    folder = Path(spec.folder)
    with _locked(folder) as files:
        if files.read_state() is not None:
            raise FarmError(f"a farm is up in {folder} already")
        _clear(files)
        write_atomic(files.spec, spec.to_json())
        if writing is not None:
            write_atomic(files.owner, json.dumps(dataclasses.asdict(record_of("owner", os.getpid()))))
        argv = [sys.executable, "-m", "workers.embedded.supervisor", "--spec", str(files.spec)]
        argv += [] if reading is None else ["--owner-pipe", str(reading)]
        pipes = () if reading is None else (reading,)
        # No death signal: it would come when the starting thread ends; the pipe covers an owner that dies.
        log = files.logs / "supervisor.log"
        command = Command("supervisor", tuple(argv), log, dict(os.environ), None, pipes)
        supervisor = ChildProcess(command, PidRecords(files.supervisor))
        supervisor.start()
        try:
            supervisor.wait_ready(files.state.exists, spec.ready_timeout_s + STOP_S)
            state = files.read_state()
            if state is None:
                raise ProcessFailed(f"the farm ended while it became ready{log_tail(log)}")
        except BaseException as error:
            supervisor.stop(STOP_S)
            reason = files.error_text() or str(error)
            _clear(files)
            if isinstance(error, ProcessFailed) and is_full(folder):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder)) from error
            if isinstance(error, ProcessFailed):
                raise FarmError(f"the embedded farm did not start: {reason}") from error
            raise
    owned = supervisor if writing is not None else None
    return Farm(folder, state["redis_url"], state["endpoint_url"], owned, writing)


@contextlib.contextmanager
def _locked(folder: Path, is_own: bool = False) -> Iterator[FarmFiles]:
    """Only one process at a time starts or stops the farm of a folder, and none that belongs to a living process."""
    files = FarmFiles(folder)
    try:
        private_folder(folder)
    except PermissionError as error:
        raise FarmError(f"the farm cannot use {error.filename or folder}: it {error.strerror}") from error
    files.logs.mkdir(exist_ok=True)
    with files.lock.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        owner = files.living_owner()
        if owner is not None and not is_own and files.is_supervised:
            raise FarmError(f"the farm in {folder} belongs to process {owner.pid}, which is still running")
        yield files


def _clear(files: FarmFiles) -> bool:
    """Stop a running supervisor, and end what a killed one left running. Returns whether anything was running."""
    was_running = files.is_supervised
    if was_running:
        PidRecords(files.supervisor).clear(grace_s=STOP_S)
    for path in (files.supervisor, files.pids, files.target_pids):
        was_running |= bool(PidRecords(path).clear(LEFTOVER_GRACE_S))
    valkey.remove_socket(files.folder)
    remove_farm_socket(ENDPOINT_SOCKET, files.folder)
    for path in (files.state, files.owner, files.error):
        path.unlink(missing_ok=True)
    return was_running
