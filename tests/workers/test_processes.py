"""Child processes: they end with all that they started, never outlive their owner, and continue in emptied logs."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from farm_bench import until

from workers.embedded.supervisor import RestartPolicy
from workers.processes import ChildProcess, Command, PidRecords, rotate_logs

WAIT = "import signal; signal.pause()"
WITH_CHILD = f"""
import signal, subprocess, sys
child = subprocess.Popen([sys.executable, '-c', {WAIT!r}])
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(child.pid, flush=True)
signal.pause()
"""


@pytest.fixture
def records(tmp_path: Path) -> PidRecords:
    return PidRecords(tmp_path / "pids.json")


@pytest.fixture
def child(tmp_path: Path, records: PidRecords) -> Iterator[ChildProcess]:
    """A process that ignores SIGTERM and has a child, whose pid is in its log."""
    command = Command("example", (sys.executable, "-c", WITH_CHILD), tmp_path / "example.log", dict(os.environ))
    child = ChildProcess(command, records)
    child.start()
    child.wait_ready(lambda: command.log.read_text().endswith("\n"), 20)
    yield child
    child.stop(0)


def grandchild(child: ChildProcess) -> psutil.Process:
    return psutil.Process(int(child.command.log.read_text()))


def lives(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def test_a_process_that_ignores_sigterm_is_killed_with_its_children(child: ChildProcess) -> None:
    other = grandchild(child)
    child.stop(grace_s=0.2)
    assert child.returncode == -signal.SIGKILL
    assert not lives(other)


def test_processes_of_a_killed_owner_are_ended_by_the_records(child: ChildProcess, records: PidRecords) -> None:
    # Given a process with a child, of which the process alone was killed
    other = grandchild(child)
    os.kill(child.pid or 0, signal.SIGKILL)
    child.wait_end(5)
    # When the next owner clears the records, then the child ends, and a second call finds nothing
    assert PidRecords(records.path).clear(grace_s=5) == ["example"]
    assert not lives(other)
    assert records.clear(grace_s=5) == []


def test_a_pid_of_another_process_is_not_signalled(child: ChildProcess, records: PidRecords) -> None:
    # Given a record of an ended process whose pid another one has
    [record] = records.read()
    records.remove(record)
    records.add(dataclasses.replace(record, started=record.started - 6000, token="another"))
    # When the records are cleared, then that process still runs
    assert records.clear(grace_s=1) == []
    assert child.alive


OWNER = """
import os, signal, sys
from pathlib import Path
from workers.processes import ChildProcess, Command
child = ChildProcess(Command("example", ("sleep", "600"), Path(sys.argv[1]), dict(os.environ)))
child.start()
print(child.pid, flush=True)
signal.pause()
"""


def test_a_process_ends_when_its_owner_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path / "log")], stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        process = psutil.Process(int(owner.stdout.readline()))
        owner.kill()
    assert psutil.wait_procs([process], timeout=20)[1] == []


def test_a_child_that_dies_on_a_full_disk_is_started_once_there_is_room(
    child: ChildProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a disk that takes no more
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    policy = RestartPolicy(child)
    with monkeypatch.context() as full:
        full.setattr("workers.processes.write_atomic", refuse)
        # When the child dies, then it is not started, nothing is left running, and nothing is raised
        os.kill(child.pid or 0, signal.SIGKILL)
        until(lambda: not child.alive)
        for now in range(0, 100, 6):
            policy.check(float(now))
            assert not child.alive
    # And it is started once there is room
    policy.check(200.0)
    assert child.alive


def test_a_writer_continues_in_the_emptied_log(tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    with log.open("ab") as file, subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=file) as writer:
        assert writer.stdin is not None
        for number in range(7):
            writer.stdin.write(f"{number} {'x' * 2000}\n".encode() if number < 6 else b"the end\n")
            writer.stdin.flush()
            until(lambda: log.stat().st_size > 0)
            if number < 6:
                rotate_logs([log], limit=1000)
        writer.stdin.close()
    old = tmp_path / "worker.log.1"
    assert (log.read_text(), old.read_text()[0]) == ("the end\n", "5")
    assert stat.S_IMODE(old.stat().st_mode) == stat.S_IMODE(log.stat().st_mode)
