"""Runs that go on from here: `orchestrator retry`, a process of ours for each, at most one for a run.

It is the same command that a person types, with the same checks; the output folder's lock keeps two drivers apart,
wherever they were started.  When the monitor ends, its retries are stopped in order, as with Ctrl+C, and the runs
can go on from where they are.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent

from orchestrator.farm.embedded import ChildProcess, Command, describe_exit, log_tail

GRACE_S = 8.0  # for a run to leave in order
SHOWN_LINES = 3


@dataclass(frozen=True)
class RetryView:
    """How a retry stands: whether it is at work, how it ended otherwise, and the last lines that it said."""

    at_work: bool
    ended: str
    said: str


@dataclass
class RetryProcesses:
    """The retries of this process.  `start` belongs to the main thread (see `ChildProcess`)."""

    logs: Path
    environment: Mapping[str, str]
    _processes: dict[str, ChildProcess] = field(default_factory=dict)
    _started: dict[str, float] = field(default_factory=dict)

    def start(self, run: str, folder: Path) -> None:
        """Go on with a run that nobody drives.  Raises: OSError when no process can be started."""
        argv = (sys.executable, "-m", "orchestrator", "retry", str(folder), "--plain")
        log = self.logs / f"{run}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(f"{time.strftime('%Y-%m-%d %H:%M:%S')} orchestrator retry {folder}\n")
        self._started[run] = time.time()
        process = ChildProcess(Command(f"retry {run}", argv, log, self.environment))
        process.start()
        self._processes[run] = process

    def at_work(self) -> dict[str, float]:
        """The runs that are driven from here, and since when, in seconds of the epoch."""
        return {run: self._started[run] for run, process in self._processes.items() if process.alive}

    def view(self, run: str) -> RetryView | None:
        """None for a run that was not retried from here."""
        process = self._processes.get(run)
        if process is None:
            return None
        ended = "" if process.alive else describe_exit(process.returncode)
        return RetryView(process.alive, ended, dedent(log_tail(self.logs / f"{run}.log", SHOWN_LINES)).strip())

    def stop(self) -> None:
        """Stop what is at work, all at once, and wait until it has ended."""
        for process in self._processes.values():
            process.ask_to_stop()
        until = time.monotonic() + GRACE_S
        for process in self._processes.values():
            process.stop(max(0.0, until - time.monotonic()))
