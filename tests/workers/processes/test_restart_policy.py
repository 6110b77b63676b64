"""A child that dies is restarted; a full disk ends nothing, and the child starts once there is room."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
from farm_bench import until

from workers.processes.pid_records import PidRecords
from workers.processes.process import ChildProcess, Command, ProcessFailed, RestartPolicy


def child_of(folder: Path, program: str) -> ChildProcess:
    command = Command("example", (sys.executable, "-c", program), folder / "example.log", dict(os.environ))
    return ChildProcess(command, PidRecords(folder / "pids.json"))


def test_a_child_that_dies_on_a_full_disk_is_started_once_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a child, and a disk that takes no more
    child = child_of(tmp_path, "import signal; signal.pause()")
    child.start()
    policy = RestartPolicy(child)
    full = True
    write = PidRecords._write

    def refuse(records: PidRecords, found: object) -> None:
        if full:
            raise OSError(28, "No space left on device")
        write(records, found)  # type: ignore[arg-type]  # what the real one is called with

    monkeypatch.setattr(PidRecords, "_write", refuse)
    # when the child dies, then it is not started, nothing is left running, and nothing is raised
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    until(lambda: not child.alive)
    for now in range(0, 100, 6):
        policy.check(float(now))
        assert not child.alive
    # and it is started once there is room
    full = False
    policy.check(200.0)
    assert child.alive
    child.stop(0)


def test_a_child_that_keeps_dying_is_given_up(tmp_path: Path) -> None:
    child = child_of(tmp_path, "raise SystemExit(3)")
    child.start()
    policy, now = RestartPolicy(child), 0.0

    def die_and_restart() -> None:
        nonlocal now
        for _ in range(20):
            until(lambda: not child.alive)
            now += 6.0
            policy.check(now)

    with pytest.raises(ProcessFailed, match="example died 5 times in 60 s, at last with status 3"):
        die_and_restart()
