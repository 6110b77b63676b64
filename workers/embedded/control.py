"""Start, find and stop an embedded farm from another process.

A farm is identified by its folder.  A farm that was started by `start` belongs to the process that started it and ends
with it, also when that is killed; a farm that was started by `up` stays up until `down`.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from types import TracebackType

from tasks.common.files import private_folder, write_atomic
from workers.embedded import valkey
from workers.embedded.endpoint import ENDPOINT_SOCKET
from workers.embedded.farm import (
    FarmFiles,
    FarmSpec,
    error_text,
    living_owner,
    living_supervisor,
    read_farm_state,
    status,
)
from workers.embedded.sockets import remove_farm_socket
from workers.processes import ChildProcess, Command, PidRecords, ProcessFailed, is_full, log_tail, record_of

__all__ = ["Farm", "FarmError", "attach", "attach_or_start", "down", "start", "status", "up"]

STOP_S = 20.0  # more than the supervisor's own grace periods together
LEFTOVER_GRACE_S = 3.0


class FarmError(RuntimeError):
    """The farm could not be started: one line, then the last lines of the log with the reason."""


class Farm:
    """A farm that is up. As a context manager it is stopped at the end when this process owns it."""

    def __init__(
        self, folder: Path, redis_url: str, endpoint_url: str | None, supervisor: ChildProcess | None, pipe: int | None
    ) -> None:
        self.folder = folder
        self.redis_url = redis_url
        self.endpoint_url = endpoint_url
        self._supervisor = supervisor
        self._pipe = pipe

    @property
    def owned(self) -> bool:
        return self._supervisor is not None

    @property
    def alive(self) -> bool:
        """Whether its supervisor still runs."""
        return self._supervisor.alive if self._supervisor else living_supervisor(FarmFiles(self.folder)) is not None

    def failure(self) -> str | None:
        """Why the farm stopped by itself, with the last lines of the log; None when it did not."""
        return error_text(FarmFiles(self.folder))

    def stop(self) -> None:
        """Stop an owned farm and wait until all its processes have ended; leave others up. May be called twice."""
        if self._supervisor is None:
            return
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None
        self._supervisor.wait_end(STOP_S)
        with _locked(FarmFiles(self.folder)) as files:
            self._supervisor.stop(0)
            _clear(files)

    def __enter__(self) -> Farm:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
    with _locked(FarmFiles(folder)) as files:
        _refuse_owned(files)
        state = read_farm_state(files)
        if state is None or living_supervisor(files) is None:
            return None
        return Farm(folder, state["redis_url"], state["endpoint_url"], None, None)


def attach_or_start(spec: FarmSpec) -> Farm:
    """The farm that is up in the spec's folder, or else a new one of this process."""
    return attach(Path(spec.folder)) or start(spec)


def down(folder: Path) -> bool:
    """Stop the farm in `folder`, and end what a killed one left running. Returns whether anything was running."""
    with _locked(FarmFiles(folder)) as files:
        _refuse_owned(files)
        return _clear(files)


def _start(spec: FarmSpec, reading: int | None, writing: int | None) -> Farm:
    folder = Path(spec.folder)
    with _locked(FarmFiles(folder)) as files:
        _refuse_owned(files)
        if read_farm_state(files) is not None and living_supervisor(files) is not None:
            raise FarmError(f"a farm is up in {folder} already")
        _clear(files)
        write_atomic(files.spec, spec.to_json())
        if writing is not None:
            write_atomic(files.owner, json.dumps(asdict(record_of("owner", os.getpid()))))
        supervisor = ChildProcess(_supervisor_command(files, reading), PidRecords(files.supervisor))
        supervisor.start()
        try:
            supervisor.wait_ready(files.state.exists, spec.ready_timeout_s + STOP_S)
            state = read_farm_state(files)
            if state is None:
                raise ProcessFailed(f"the farm ended while it became ready{log_tail(supervisor.command.log)}")
        except BaseException as error:
            supervisor.stop(STOP_S)
            reason = error_text(files) or str(error)
            _clear(files)
            if isinstance(error, ProcessFailed) and is_full(folder):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder)) from error
            if isinstance(error, ProcessFailed):
                raise FarmError(f"the embedded farm did not start: {reason}") from error
            raise
    owned = supervisor if writing is not None else None
    return Farm(folder, state["redis_url"], state["endpoint_url"], owned, writing)


def _supervisor_command(files: FarmFiles, reading: int | None) -> Command:
    argv = [sys.executable, "-m", "workers.embedded.supervisor", "--spec", str(files.spec)]
    pipes = () if reading is None else (reading,)
    argv += [option for pipe in pipes for option in ("--owner-pipe", str(pipe))]
    # No death signal: it would come when the starting thread ends; the pipe covers an owner that dies.
    return Command("supervisor", tuple(argv), files.logs / "supervisor.log", dict(os.environ), None, pipes)


@contextlib.contextmanager
def _locked(files: FarmFiles) -> Iterator[FarmFiles]:
    """Only one process at a time starts or stops the farm of a folder."""
    try:
        private_folder(files.folder)
    except PermissionError as error:
        raise FarmError(f"the farm cannot use {error.filename or files.folder}: it {error.strerror}") from error
    files.logs.mkdir(exist_ok=True)
    with files.lock.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield files


def _refuse_owned(files: FarmFiles) -> None:
    owner = living_owner(files)
    if owner is not None and living_supervisor(files) is not None:
        raise FarmError(f"the farm in {files.folder} belongs to process {owner.pid}, which is still running")


def _clear(files: FarmFiles) -> bool:
    """Stop a running supervisor, and end what a killed one left running. Returns whether anything was running."""
    supervisor = living_supervisor(files)
    was_running = supervisor is not None
    if supervisor is not None:
        PidRecords(files.supervisor).clear(grace_s=STOP_S)
    for path in (files.supervisor, files.pids, files.target_pids):
        was_running |= bool(PidRecords(path).clear(LEFTOVER_GRACE_S))
    valkey.remove_socket(files.folder)
    remove_farm_socket(ENDPOINT_SOCKET, files.folder)
    for path in (files.state, files.owner, files.error):
        path.unlink(missing_ok=True)
    return was_running
