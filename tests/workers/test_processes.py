"""Child processes: their start, the reason when they do not start, and that they never outlive their owner."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from farm_bench import until

from workers.embedded.supervisor import RestartPolicy
from workers.processes import ChildProcess, Command, PidRecords, ProcessFailed, rotate_logs

IMPORTS = "from pathlib import Path; import sys, signal, subprocess, time\n"
READY = "Path(sys.argv[1]).write_text('ready')\n"
WAIT = "signal.pause()\n"
IGNORE_SIGTERM = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
WITH_CHILD = (
    "child = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()']); print(child.pid, flush=True)\n"
)


@pytest.fixture
def ready(tmp_path: Path) -> Path:
    return tmp_path / "ready"


@pytest.fixture
def children() -> Iterator[list[ChildProcess]]:
    started: list[ChildProcess] = []
    yield started
    for child in started:
        child.stop(0)


def python(tmp_path: Path, program: str) -> Command:
    argv = (sys.executable, "-c", IMPORTS + program, str(tmp_path / "ready"))
    return Command("example", argv, tmp_path / "example.log", dict(os.environ))


def started(
    tmp_path: Path, program: str, children: list[ChildProcess], records: PidRecords | None = None
) -> ChildProcess:
    child = ChildProcess(python(tmp_path, program), records)
    children.append(child)
    child.start()
    child.wait_ready((tmp_path / "ready").exists, 20)
    return child


def lives(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def test_a_process_that_ignores_sigterm_is_killed_with_its_children(
    tmp_path: Path, children: list[ChildProcess]
) -> None:
    # Given a process that ignores SIGTERM and has a child
    child = started(tmp_path, IGNORE_SIGTERM + WITH_CHILD + READY + WAIT, children)
    grandchild = psutil.Process(int(child.command.log.read_text()))
    # When it is stopped, then both have ended after the grace period
    child.stop(grace_s=0.2)
    assert child.returncode == -signal.SIGKILL
    assert not lives(grandchild)


def test_the_error_for_a_process_that_dies_early_ends_with_its_log(
    tmp_path: Path, children: list[ChildProcess]
) -> None:
    with pytest.raises(ProcessFailed, match=r"example ended with status 3\n  the reason"):
        started(tmp_path, "print('the reason', flush=True); sys.exit(3)", children)


def test_processes_of_a_killed_owner_are_ended_by_the_records(tmp_path: Path, children: list[ChildProcess]) -> None:
    # Given a process with a child, of which the process alone was killed
    records = PidRecords(tmp_path / "pids.json")
    child = started(tmp_path, WITH_CHILD + READY + WAIT, children, records)
    grandchild = psutil.Process(int(child.command.log.read_text()))
    os.kill(child.pid or 0, signal.SIGKILL)
    child.wait_end(5)
    # When the next owner clears the records, then the child ends, and a second call finds nothing
    assert PidRecords(tmp_path / "pids.json").clear(grace_s=5) == ["example"]
    assert not lives(grandchild)
    assert records.clear(grace_s=5) == []


def test_a_pid_of_another_process_is_not_signalled(tmp_path: Path, children: list[ChildProcess]) -> None:
    # Given a record whose pid belongs to a process with another start time
    records = PidRecords(tmp_path / "pids.json")
    child = started(tmp_path, READY + WAIT, children, records)
    [record] = records.read()
    records.remove(record)
    records.add(dataclasses.replace(record, started=record.started - 6000))
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
        child = psutil.Process(int(owner.stdout.readline()))
        owner.kill()
    assert psutil.wait_procs([child], timeout=20)[1] == []


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


WRITER = """
import sys
for line in sys.stdin:
    print(line, end="", flush=True)
"""


def test_a_writer_continues_in_the_emptied_log(tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    with log.open("ab") as file:
        writer = subprocess.Popen([sys.executable, "-c", WRITER], stdin=subprocess.PIPE, stdout=file, text=True)
    assert writer.stdin is not None

    def write(text: str) -> None:
        size = log.stat().st_size
        writer.stdin.write(text + "\n")
        writer.stdin.flush()
        while log.stat().st_size == size:
            time.sleep(0.01)

    for number in range(6):
        write(f"{number} " + "x" * 2000)
        rotate_logs([log], limit=1000)
    write("the end")
    writer.stdin.close()
    writer.wait()

    assert log.read_text() == "the end\n"
    old = tmp_path / "worker.log.1"
    assert old.read_text()[0] == "5"
    assert stat.S_IMODE(old.stat().st_mode) == stat.S_IMODE(log.stat().st_mode)
