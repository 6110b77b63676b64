"""A child process: started in a session of its own, watched until it is ready, restarted when it dies, and stopped.

Three things keep a process from outliving its owner: `stop`, for an owner that ends regularly; the kernel's
parent-death signal (Linux), for an owner that is killed; and the pid records, by which the next owner finds what is
still running.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tasks.common import die_with_parent
from tasks.common.child import identify
from tasks.common.files import NO_ROOM
from workers.processes.pid_records import TOKEN_VARIABLE, PidRecord, PidRecords, end_processes

logger = logging.getLogger("whetstone.farm")

WRAPPER = Path(die_with_parent.__file__)
LOG_LINES = 12
PROBE_PAUSE_S = 0.05
DEATHS_ALLOWED, DEATHS_WINDOW_S = 5, 60.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0
FULL_BYTES = 1_000_000  # less than this is no room to start in


class ProcessFailed(RuntimeError):
    """A process did not become ready, or keeps dying; the message ends with the last lines of its log."""


@dataclass(frozen=True)
class Command:
    """What to run. `environment` is complete, not an addition.

    `death_signal` is what the process gets when its owner dies (Linux); None lets it run on.
    """

    name: str
    argv: tuple[str, ...]
    log: Path
    environment: Mapping[str, str]
    death_signal: signal.Signals | None = signal.SIGTERM
    pass_fds: tuple[int, ...] = ()


class ChildProcess:
    """One child process, and everything that it starts in its process group.

    The parent-death signal comes when the THREAD that called `start` ends, not only its process.  Call it from a thread
    that lives as long as the process: the main thread, or a one-thread executor that is kept for this.
    """

    def __init__(self, command: Command, records: PidRecords | None = None) -> None:
        self.command = command
        self._records = records
        self._process: subprocess.Popen[bytes] | None = None
        self._record: PidRecord | None = None

    def start(self) -> None:
        """Start it, once."""
        token = uuid.uuid4().hex
        self.command.log.parent.mkdir(parents=True, exist_ok=True)
        with self.command.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._wrapper(), *self.command.argv],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**self.command.environment, TOKEN_VARIABLE: token},
                start_new_session=True,
                pass_fds=self.command.pass_fds,
            )
        process = identify(self._process.pid)
        if process is not None:
            self._record = PidRecord.of(self.command.name, process, token)
            if self._records is not None:
                try:
                    self._records.add(self._record)
                except OSError:
                    self.stop(0)  # a process without a record could outlive its owner
                    raise

    def _wrapper(self) -> list[str]:
        if self.command.death_signal is None:
            return []
        return [sys.executable, "-I", "-S", str(WRAPPER), str(os.getpid()), str(int(self.command.death_signal))]

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def returncode(self) -> int | None:
        return self._process.poll() if self._process else None

    def wait_ready(
        self, is_ready: Callable[[], bool], timeout_s: float, cancelled: threading.Event | None = None
    ) -> None:
        """Wait until `is_ready()` is true."""
        cancelled = cancelled or threading.Event()
        deadline = time.monotonic() + timeout_s
        while not is_ready():
            if not self.alive:
                raise ProcessFailed(f"{self.command.name} ended with {describe_exit(self.returncode)}{self.log_tail()}")
            if time.monotonic() > deadline:
                raise ProcessFailed(f"{self.command.name} was not ready in {timeout_s:g} s{self.log_tail()}")
            if cancelled.wait(PROBE_PAUSE_S):
                raise ProcessFailed(f"the start of {self.command.name} was cancelled")

    def ask_to_stop(self) -> None:
        """Send SIGTERM to the process alone, so that it can end its own children in order."""
        if self.alive and self._process is not None:
            self._process.send_signal(signal.SIGTERM)

    def wait_end(self, limit_s: float) -> bool:
        """Wait until the process has ended, `limit_s` seconds at most. Returns whether it has."""
        if self._process is None:
            return True
        try:
            self._process.wait(max(limit_s, 0))
        except subprocess.TimeoutExpired:
            return False
        return True

    def stop(self, grace_s: float) -> None:
        """SIGTERM, `grace_s` seconds, then SIGKILL for the rest of its group. May be called twice."""
        if self._process is None:
            return
        group = self._record.members() if self._record is not None else []
        self.ask_to_stop()
        if not self.wait_end(grace_s):
            self._process.kill()
            self._process.wait()
        if self._record is not None:
            # Members from before and from now: the group of a dead leader is found by the environment of its members,
            # and not every process keeps its environment readable.
            end_processes([*group, *self._record.members()], grace_s=0)
        if self._records is not None and self._record is not None:
            with contextlib.suppress(OSError):  # on a full disk it stays: the record of an ended process does no harm
                self._records.remove(self._record)
        self._record = None

    def log_tail(self, lines: int = LOG_LINES) -> str:
        """The last `lines` lines of its log, each after a line break; empty when there is no log."""
        return log_tail(self.command.log, lines)


class RestartPolicy:
    """Restarts one child process when it dies, after a pause that doubles with each recent death.

    While there is no room on the disk, deaths are not counted, and it tries again and again.
    """

    def __init__(self, child: ChildProcess) -> None:
        self.child = child
        self._deaths: deque[float] = deque(maxlen=DEATHS_ALLOWED)
        self._restart_at: float | None = None

    def check(self, now: float) -> None:
        """Detect a death, and restart when the pause is over."""
        if self._restart_at is None and not self.child.alive:
            self._note_death(now)
        if self._restart_at is not None and now >= self._restart_at:
            self._restart_at = now + LONGEST_PAUSE_S
            try:
                self.child.start()
            except OSError as error:
                if error.errno not in NO_ROOM:
                    raise
                logger.warning("%s cannot be started: %s", self.child.command.name, error)
                return
            self._restart_at = None

    def _note_death(self, now: float) -> None:
        name, how = self.child.command.name, describe_exit(self.child.returncode)
        self.child.stop(0)  # the rest of its group
        self._deaths.append(now)
        recent = sum(now - death < DEATHS_WINDOW_S for death in self._deaths)
        if recent >= DEATHS_ALLOWED and is_full(self.child.command.log.parent):
            logger.warning("%s died with %s, and its disk is full", name, how)
            self._deaths.clear()
        elif recent >= DEATHS_ALLOWED:
            window = f"{recent} times in {DEATHS_WINDOW_S:g} s"
            raise ProcessFailed(f"{name} died {window}, at last with {how}{self.child.log_tail()}")
        pause = min(FIRST_PAUSE_S * 2 ** (recent - 1), LONGEST_PAUSE_S)
        logger.warning("%s died with %s; restarting it in %.1f s", name, how, pause)
        self._restart_at = now + pause


def is_full(folder: Path) -> bool:
    """Whether the disk of this folder has no room to start in."""
    return shutil.disk_usage(folder).free < FULL_BYTES


def log_tail(log: Path, lines: int = LOG_LINES) -> str:
    """The last `lines` lines of a log, each after a line break; empty when there is no log."""
    try:
        text = log.read_bytes()[-64_000:].decode(errors="replace")
    except OSError:
        return ""
    return "".join(f"\n  {line}" for line in text.splitlines()[-lines:])


def describe_exit(returncode: int | None) -> str:
    """An exit status in words: "status 3", "SIGKILL"."""
    if returncode is not None and returncode < 0:
        return signal.Signals(-returncode).name
    return f"status {returncode}"


def is_healthy(base_url: str, timeout_s: float = 2.0) -> bool:
    """Whether GET /health under `base_url` answers 200 in time."""
    # Here, since the client takes 0.1 s to import, and most users of this module start processes without HTTP.
    import httpx2

    from tasks.http.bounded import OK, fetch

    try:
        return fetch(base_url, "/health", timeout_s).status_code == OK
    except (httpx2.HTTPError, httpx2.InvalidURL):
        return False
