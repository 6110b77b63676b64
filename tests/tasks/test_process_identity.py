"""A process is known again whatever the wall clock says, and another process with its pid is not taken for it."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess

import psutil
import pytest

from tasks.common.process import identify


def test_a_process_that_ended_is_not_alive_even_before_it_is_waited_for() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
        process = identify(child.pid)
        assert process.is_alive()
        process.send_signal(signal.SIGKILL)
        # a zombie from here on: its exit status is not read
        assert child.stdin is not None
        while process.is_alive():
            pass
        assert identify(child.pid) == process
        assert child.wait() == -signal.SIGKILL
    with pytest.raises(psutil.NoSuchProcess):
        identify(child.pid)
    process.send_signal(signal.SIGKILL)  # nothing to signal, and no error


@pytest.mark.parametrize("change", [{"started": 1.0}, {"boot": "another"}], ids=["start", "boot"])
def test_another_process_with_the_same_pid_is_neither_alive_nor_signalled(change: dict[str, object]) -> None:
    other = dataclasses.replace(identify(os.getpid()), **change)  # type: ignore[arg-type]
    assert not other.is_alive()
    other.send_signal(signal.SIGKILL)
