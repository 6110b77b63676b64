"""Child processes of the farm: started in sessions of their own, watched, and stopped; and their logs.

No process outlives its owner.  One that ends calls `stop`.  For one that is killed the kernel sends the parent-death
signal (Linux), and the next owner finds the rest by the pid records.  A pid that another process has meanwhile is never
signalled.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import shutil
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from tasks.common.files import is_own_folder, runtime_path, write_atomic
from tasks.common.process import (
    ProcessIdentity,
    dying_with_parent,
    has_ended,
    identify,
    stop_child,
    wait_ended,
)

logger = logging.getLogger("whetstone.farm")

TOKEN_VARIABLE = "WHETSTONE_PROCESS"
KILL_S, POLL_S = 3.0, 0.02
LOG_LINES = 12
FULL_BYTES = 1_000_000  # less than this is no room to start in
LOG_BYTES = 10 * 2**20


@dataclass(frozen=True)
class PidRecord(ProcessIdentity):
    """One process with a name, and the value of its WHETSTONE_PROCESS, which its children have too."""

    name: str
    token: str = ""

    def members(self) -> list[ProcessIdentity]:
        """The process and its group; the members of a dead leader's group are known by their environment."""
        is_led = self.is_alive()
        found: list[ProcessIdentity] = [self] if is_led else []
        for pid in psutil.pids():
            with contextlib.suppress(psutil.Error, OSError):
                is_member = pid != self.pid and os.getpgid(pid) == self.pid
                if is_member and (is_led or psutil.Process(pid).environ().get(TOKEN_VARIABLE) == self.token):
                    found.append(identify(pid))
        return found


def record_of(name: str, pid: int, token: str = "") -> PidRecord:
    return PidRecord(**asdict(identify(pid)), name=name, token=token)


class PidRecords:
    """The processes that one owner has started, in a file; for several of its threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()

    def read(self) -> list[PidRecord]:
        return [PidRecord(**record) for record in read_own_file(self.path) or ()]

    def add(self, record: PidRecord) -> None:
        with self._lock:
            self._write([*self.read(), record])

    def remove(self, record: PidRecord) -> None:
        with self._lock:
            self._write([other for other in self.read() if other != record])

    def clear(self, grace_s: float) -> list[str]:
        """End all recorded processes that still run, and remove the file.  Returns their names."""
        with self._lock:
            running = {record.name: record.members() for record in self.read()}
            end_processes([process for members in running.values() for process in members], grace_s)
            self.path.unlink(missing_ok=True)
            return [name for name, members in running.items() if members]

    def _write(self, records: list[PidRecord]) -> None:
        write_atomic(self.path, json.dumps([asdict(record) for record in records], indent=1))


def read_own_file(path: Path) -> Any:
    """What a JSON file that this project wrote holds; None when there is no file."""
    return json.loads(path.read_text()) if path.exists() else None


def temporary_folder(records: Path) -> Path:
    """Where a target server with these records has its temporary files, with a short path."""
    return runtime_path() / f"target-{hashlib.sha256(os.fsencode(records.absolute())).hexdigest()[:12]}.tmp"


def clear_temporary(records: Path) -> None:
    """Remove the temporary files of a server that has ended."""
    folder = temporary_folder(records)
    if is_own_folder(folder.parent):
        shutil.rmtree(folder, ignore_errors=True)


def end_processes(processes: list[ProcessIdentity], grace_s: float) -> None:
    """SIGTERM to all, `grace_s` seconds for all together, then SIGKILL; returns when they have ended."""
    for number, limit_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, KILL_S)):
        if limit_s > 0:
            for process in processes:
                process.send_signal(number)
        # Not by waitpid: it would take a child's exit status away from the process that started it, and an orphan is
        # waited for by its new parent alone.
        deadline = time.monotonic() + limit_s
        while any(process.is_alive() for process in processes) and time.monotonic() < deadline:
            time.sleep(POLL_S)


class ProcessFailed(RuntimeError):
    """A process did not become ready, or keeps dying; the message ends with the last lines of its log."""


@dataclass(frozen=True)
class Command:
    name: str
    argv: tuple[str, ...]
    log: Path
    environment: Mapping[str, str]  # complete, not an addition
    death_signal: signal.Signals | None = signal.SIGTERM  # sent when its owner dies (Linux); None lets it run on
    pass_fds: tuple[int, ...] = ()


class ChildProcess:
    """One child process, and all that it starts in its group.  Its owner is the THREAD that called `start`."""

    def __init__(self, command: Command, records: PidRecords | None = None) -> None:
        self.command, self._records = command, records
        self._process: subprocess.Popen[bytes] | None = None
        self._record: PidRecord | None = None

    def start(self) -> None:
        token, command = uuid.uuid4().hex, self.command
        number = command.death_signal
        argv = command.argv if number is None else dying_with_parent(command.argv, number)
        environment = {**command.environment, TOKEN_VARIABLE: token}
        command.log.parent.mkdir(parents=True, exist_ok=True)
        with command.log.open("ab") as log:
            streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": subprocess.STDOUT}
            self._process = subprocess.Popen(
                argv, env=environment, start_new_session=True, pass_fds=command.pass_fds, **streams
            )
        self._record = record_of(command.name, self._process.pid, token)
        if self._records is not None:
            try:
                self._records.add(self._record)
            except OSError:
                self.stop(0)  # a process without a record could outlive its owner
                raise

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    @property
    def returncode(self) -> int | None:
        """None until `stop` has been called, also of a process that has ended."""
        return self._process.returncode if self._process else None

    @property
    def alive(self) -> bool:
        return self._process is not None and not has_ended(self._process)

    def wait_ready(
        self, is_ready: Callable[[], bool], timeout_s: float, cancelled: threading.Event | None = None
    ) -> None:
        """Wait until `is_ready()` is true."""
        cancelled, name = cancelled or threading.Event(), self.command.name
        deadline = time.monotonic() + timeout_s
        while not is_ready():
            if not self.alive:
                self.stop(0)
                raise ProcessFailed(f"{name} ended with {describe_exit(self.returncode)}{log_tail(self.command.log)}")
            if time.monotonic() > deadline:
                raise ProcessFailed(f"{name} was not ready in {timeout_s:g} s{log_tail(self.command.log)}")
            if cancelled.wait(0.05):
                raise ProcessFailed(f"the start of {name} was cancelled")

    def ask_to_stop(self) -> None:
        """Send SIGTERM to the process alone, so that it can end its own children in order."""
        if self._process is not None and self.alive:
            self._process.send_signal(signal.SIGTERM)

    def wait_end(self, limit_s: float) -> bool:
        return self._process is None or wait_ended(self._process, limit_s)

    def stop(self, grace_s: float) -> None:
        """SIGTERM, `grace_s` seconds, then SIGKILL for the rest of its group.  May be called twice."""
        if self._process is None or self._record is None:
            return
        group = self._record.members()
        stop_child(self._process, grace_s)
        # Members from before and from now: not every process keeps its environment readable.
        end_processes([*group, *self._record.members()], grace_s=0)
        if self._records is not None:
            with contextlib.suppress(OSError):  # on a full disk it stays: the record of an ended process does no harm
                self._records.remove(self._record)
        self._record = None


def is_full(folder: Path) -> bool:
    return shutil.disk_usage(folder).free < FULL_BYTES


def log_tail(log: Path) -> str:
    """The last lines of a log, each after a line break."""
    text = log.read_bytes()[-64_000:].decode(errors="replace") if log.exists() else ""
    return "".join(f"\n  {line}" for line in text.splitlines()[-LOG_LINES:])


def describe_exit(returncode: int | None) -> str:
    return f"status {returncode}" if returncode is None or returncode >= 0 else signal.Signals(-returncode).name


def is_healthy(base_url: str, timeout_s: float = 2.0) -> bool:
    """Whether GET /health under `base_url` answers 200 in time."""
    # Here, since the client takes 0.1 s to import, and most users of this module start processes without HTTP.
    import httpx2

    from tasks.common.http import OK, fetch

    try:
        return fetch(base_url, "/health", timeout_s).status_code == OK
    except (httpx2.HTTPError, httpx2.InvalidURL):
        return False


def rotate_logs(paths: Iterable[Path], limit: int = LOG_BYTES) -> None:
    """Empty each log of more than `limit` bytes, whose process has it open; its text goes to NAME.1."""
    for path in paths:
        try:
            if path.exists() and path.stat().st_size > limit:
                shutil.copy(path, path.with_name(f"{path.name}.1"))
                os.truncate(path, 0)
        except OSError as error:
            logger.warning("%s has reached its limit of %d bytes and cannot be rotated: %s", path, limit, error)
