"""Child processes: they end with all that they started, never outlive their owner, and continue in emptied logs."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from farm_bench import until

from workers.processes import ChildProcess, Command, PidRecords, rotate_logs

WITH_CHILD = """
import signal, subprocess, sys
child = subprocess.Popen([sys.executable, '-c', "import signal; signal.pause()"])
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(child.pid, flush=True)
signal.pause()
"""


@pytest.fixture
def child(tmp_path: Path) -> Iterator[ChildProcess]:
    """A process that ignores SIGTERM and has a child, whose pid is in its log."""
    command = Command("example", (sys.executable, "-c", WITH_CHILD), tmp_path / "example.log", dict(os.environ))
    child = ChildProcess(command, PidRecords(tmp_path / "pids.json"))
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


def test_the_records_of_a_killed_owner_end_its_processes_and_no_others(child: ChildProcess, tmp_path: Path) -> None:
    # Given a record of an ended process whose pid another one has
    records = PidRecords(tmp_path / "pids.json")
    [record] = records.read()
    records.remove(record)
    records.add(dataclasses.replace(record, started=record.started - 6000, token="another"))
    # When the records are cleared, then that process still runs
    assert records.clear(grace_s=1) == []
    assert child.alive
    # When a process with a child was killed alone, then the next owner ends the child
    records.add(record)
    other = grandchild(child)
    os.kill(child.pid or 0, signal.SIGKILL)
    child.wait_end(5)
    assert records.clear(grace_s=5) == ["example"]
    assert not lives(other)


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
    command = [sys.executable, "-c", OWNER, str(tmp_path / "log")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        process = psutil.Process(int(owner.stdout.readline()))
        owner.kill()
    assert psutil.wait_procs([process], timeout=20)[1] == []


def test_a_writer_continues_in_the_emptied_log(tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    with log.open("ab") as file, subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=file) as writer:
        assert writer.stdin is not None
        for text in (b"first", b"second"):
            writer.stdin.write(text)
            writer.stdin.flush()
            until(lambda: log.stat().st_size > 0)
            rotate_logs([log], limit=3)
            assert (log.read_bytes(), (tmp_path / "worker.log.1").read_bytes()) == (b"", text)
        writer.stdin.close()
