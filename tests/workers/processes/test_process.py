"""Child processes: their start, the reason when they do not start, and that they never outlive their owner."""

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from workers.processes.pid_records import PidRecords
from workers.processes.process import ChildProcess, Command, ProcessFailed

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


def test_a_process_is_ready_when_its_check_succeeds_and_stops_on_request(
    tmp_path: Path, children: list[ChildProcess]
) -> None:
    child = started(tmp_path, READY + WAIT, children)
    assert child.alive
    child.stop(grace_s=10)
    assert child.returncode == -signal.SIGTERM


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
from workers.processes.process import ChildProcess, Command
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


def test_a_process_ends_with_the_thread_that_started_it(tmp_path: Path, children: list[ChildProcess]) -> None:
    # Given one process started by a thread that ends, and one by a thread that stays
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    passing, staying = (ChildProcess(python(tmp_path / name, READY + WAIT)) for name in "ab")
    children += [passing, staying]
    thread = threading.Thread(
        target=lambda: (passing.start(), passing.wait_ready((tmp_path / "a" / "ready").exists, 20))
    )
    thread.start()
    with ThreadPoolExecutor(max_workers=1) as kept:
        kept.submit(staying.start).result()
        staying.wait_ready((tmp_path / "b" / "ready").exists, 20)
        # When the first thread has ended, then its process ends and the other runs on
        thread.join()
        assert passing.wait_end(5)
        assert staying.alive
