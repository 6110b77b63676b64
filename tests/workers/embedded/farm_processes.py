"""A small embedded farm for the tests, and the processes that run for it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil
from farm_bench import until

from workers.embedded.farm import FarmSpec


def farm_spec(folder: Path) -> FarmSpec:
    return FarmSpec(str(folder), openai_workers=2, embedded_endpoint=False, visibility_timeout=3.0)


def processes_of(folder: Path) -> list[psutil.Process]:
    """Every living process that has the farm's folder in its command line, its environment or its name."""
    found = []
    for process in psutil.process_iter():
        try:
            text = " ".join([*process.cmdline(), *process.environ().values()])
            if str(folder) in text and process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    until(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
