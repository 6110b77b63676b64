"""A process is known again whatever the wall clock says, and another process with its pid is not taken for it."""

from __future__ import annotations

import dataclasses
import json
import signal
import subprocess
import sys

import pytest
from clock_step import after_clock_step

from tasks.process_identity import ProcessIdentity, identify, pid_namespace, this_process

LOOK = """
import json, sys, psutil
from tasks.process_identity import ProcessIdentity
process = ProcessIdentity(**json.loads(sys.argv[1]))
print(process.is_alive(), psutil.Process(process.pid).create_time())
"""


def test_a_process_that_ended_is_not_alive_even_before_it_is_waited_for() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
        process = identify(child.pid)
        assert process is not None
        assert process.is_alive()
        process.send_signal(signal.SIGKILL)
        # a zombie from here on: its exit status is not read
        assert child.stdin is not None
        while process.is_alive():
            pass
        assert identify(child.pid) == process
        assert child.wait() == -signal.SIGKILL
    assert identify(child.pid) is None
    process.send_signal(signal.SIGKILL)  # nothing to signal, and no error


@pytest.mark.parametrize("change", [{"started": 1}, {"boot": "another"}], ids=["start", "boot"])
def test_another_process_with_the_same_pid_is_neither_alive_nor_signalled(change: dict[str, object]) -> None:
    other = dataclasses.replace(this_process(), **change)  # type: ignore[arg-type]
    assert not other.is_alive()
    other.send_signal(signal.SIGKILL)


def test_a_step_of_the_clock_changes_no_identity() -> None:
    # Given this process, as another one sees it and as it is seen after a step of the clock by five seconds
    process = json.dumps(dataclasses.asdict(this_process()))
    command = [sys.executable, "-c", LOOK, process]
    before = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    after = after_clock_step(command, 5).stdout.split()
    # Then the start in seconds of the epoch has moved, and the process is the same
    assert float(after[1]) - float(before[1]) == pytest.approx(5, abs=0.1)
    assert (before[0], after[0]) == ("True", "True")
    assert this_process() == ProcessIdentity(**json.loads(process))


def test_a_container_has_a_namespace_of_its_own() -> None:
    show = "from tasks.process_identity import pid_namespace; print(pid_namespace())"
    assert subprocess.check_output([sys.executable, "-c", show], text=True).strip() == pid_namespace()
