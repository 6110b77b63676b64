"""A command that is killed at many moments, itself or a process of its farm, and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import psutil
from run_folder import RunFolder, finish, process_of, wait_until

# An answer in one of these processes is lost with it.  The others hold none.
HOLDERS = ("gpu", "openai", "target", "endpoint", "supervisor")


def kill_moments(usual: int) -> int:
    """At how many moments a test kills: ten with `make faults`."""
    return int(os.environ.get("WHETSTONE_KILL_MOMENTS", usual))


def kill_command(run: RunFolder, process: subprocess.Popen[str]) -> None:
    """Kill the command, and wait until its farm has ended."""
    process.kill()
    process.communicate()
    wait_until(lambda: not run.processes(), "the killed command's farm to end", 60)


def kill_at_moments(run: RunFolder, total: int, moments: int, *again: str) -> None:
    """Start the command and kill it so many times, at equal distances in its `total` answers.

    `again`: arguments of every start but the first.
    """
    for moment in range(moments):
        process = run.start(*(again if moment else ()))
        wait_for_answers(run, process, total * (moment + 1) // (moments + 1))
        kill_command(run, process)


def wait_for_answers(run: RunFolder, process: subprocess.Popen[str], wanted: int, timeout: float = 120) -> None:
    """Until the farm has answered so many calls, or the command has ended."""
    wait_until(lambda: run.answers() >= wanted or process.poll() is not None, "answers", timeout)


@dataclass(frozen=True)
class Killed:
    """How the command ended, and when answers may have been lost, as `RunFolder.repeated` takes it."""

    done: subprocess.CompletedProcess[str]
    losses: Sequence[tuple[float, float]]


def kill_each(run: RunFolder, total: int, parts: Sequence[str], timeout: float, *again: str) -> Killed:
    """Kill a process of each kind, one after the other, at equal distances in the run's `total` answers.

    `parts`: kinds as `process_of` has them, and "command"; `again`: arguments of every start but the first; `timeout`
    in seconds, of each wait.
    """
    kills, losses = [time.time()], list[tuple[float, float]]()
    process = run.start()
    for moment, part in enumerate(parts):
        wait_for_answers(run, process, total * (moment + 1) // (len(parts) + 1), timeout)
        current = _kill(run, process, part, timeout, again)
        if current is not process and part != "command":
            # The farm stopped after the last kill, with all its processes.  They may have held answers since the kill
            # before it: between two kills in short succession no answer is stored.
            losses.append((kills[-2:][0], time.time()))
        process = current
        kills.append(time.time())
        if part in HOLDERS:
            losses.append((kills[-1], kills[-1]))
    done = finish(process, timeout)
    while done.returncode == 2:
        losses.append((kills[-2:][0], time.time()))
        done = run.run(*again, timeout=timeout)
    return Killed(done, losses)


def _kill(
    run: RunFolder, process: subprocess.Popen[str], part: str, timeout: float, again: Sequence[str]
) -> subprocess.Popen[str]:
    """Kill a process; returns the command, started again when it was killed or its farm had stopped before.

    A farm in which one process dies five times in a minute stops, and the command ends with 2.
    """
    while True:
        if process.poll() is not None:
            done = finish(process)
            assert done.returncode == 2, f"it ended before the {part} was killed:\n{done.stdout}"
            assert "Traceback" not in done.stdout
            process = run.start(*again)
        if part == "command":
            kill_command(run, process)
            return run.start(*again)
        wait_until(lambda p=process: process_of(run, part) or p.poll() is not None, f"a {part} to kill", timeout)
        chosen = process_of(run, part)
        if chosen is None:
            continue
        with suppress(psutil.NoSuchProcess):  # it may have ended with another process just now
            chosen.send_signal(signal.SIGKILL)
            return process
