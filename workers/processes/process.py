"""A process that is ours: started in a session of its own, watched until it answers, and taken down for certain.

Three things keep a process from outliving its owner: `stop`, for an owner in good health; the kernel's parent-death
signal (Linux), for an owner that was killed; and the pid records, with which the next owner finds what is still left.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tasks import die_with_parent
from workers.processes.pid_records import TOKEN_VARIABLE, PidRecord, PidRecords, end, start_time

WRAPPER = Path(die_with_parent.__file__)
LOG_LINES = 12
PROBE_PAUSE_S = 0.05


class ProcessFailed(RuntimeError):
    """A process that did not become ready; the message ends with the last lines of its log."""


@dataclass(frozen=True)
class Command:
    """What to run. `environment` is complete, not an addition.

    `death_signal` is what it gets when its owner dies (Linux); None lets it live on.
    """

    name: str
    argv: tuple[str, ...]
    log: Path
    environment: Mapping[str, str]
    death_signal: signal.Signals | None = signal.SIGTERM
    pass_fds: tuple[int, ...] = ()


class ChildProcess:
    """One process of ours, and everything that it starts in its process group.

    The parent-death signal comes when the THREAD that called `start` ends, not only its process: call it from a
    thread that lives as long as the process (the main thread, or a one-thread executor kept for this).
    """

    def __init__(self, command: Command, records: PidRecords | None = None) -> None:
        self.command = command
        self._records = records
        self._process: subprocess.Popen[bytes] | None = None
        self._record: PidRecord | None = None

    def start(self) -> None:
        """Start it, once. Raises: OSError when it cannot be started."""
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
        started = start_time(self._process.pid)
        if started is not None:
            self._record = PidRecord(self.command.name, self._process.pid, started, token)
            if self._records is not None:
                self._records.add(self._record)

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

    def wait_ready(self, probe: Callable[[], bool], deadline_s: float, give_up: threading.Event | None = None) -> None:
        """Wait until `probe` says yes.

        Raises: ProcessFailed when it dies, when `deadline_s` seconds are over, or when `give_up` is set meanwhile.
        """
        give_up = give_up or threading.Event()
        deadline = time.monotonic() + deadline_s
        while not probe():
            if not self.alive:
                raise ProcessFailed(f"{self.command.name} ended with {describe_exit(self.returncode)}{self.log_tail()}")
            if time.monotonic() > deadline:
                raise ProcessFailed(f"{self.command.name} was not ready in {deadline_s:g} s{self.log_tail()}")
            if give_up.wait(PROBE_PAUSE_S):
                raise ProcessFailed(f"{self.command.name} was no longer wanted")

    def ask_to_stop(self) -> None:
        """Send SIGTERM to the process alone, which knows best how to end its own children."""
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
        """SIGTERM, `grace_s` seconds, SIGKILL for whatever of its group is left. May be called twice."""
        if self._process is None:
            return
        group = self._record.members() if self._record is not None else []
        self.ask_to_stop()
        if not self.wait_end(grace_s):
            self._process.kill()
            self._process.wait()
        if self._record is not None:
            # Both those that were there before and those that came since: not every process keeps its environment
            # readable, by which the group of a dead leader is known.
            end([*group, *self._record.members()], grace_s=0)
        if self._records is not None and self._record is not None:
            self._records.remove(self._record)
        self._record = None

    def log_tail(self, lines: int = LOG_LINES) -> str:
        """The last lines of the log, each on a line of its own, after a line break; empty when there is none."""
        return log_tail(self.command.log, lines)


def log_tail(log: Path, lines: int = LOG_LINES) -> str:
    """The last `lines` lines of a log, each after a line break; empty when there is none."""
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
