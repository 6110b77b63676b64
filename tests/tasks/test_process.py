"""A process is known by more than its pid; a child that computes fails in a sentence, and ends with its parent."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest
from farm_bench import lives, until

from tasks.common import child as children
from tasks.common.child import CardMemoryFull, ChildFailed, ComputeChild, run_child
from tasks.common.process import identify


def test_a_process_that_ended_is_not_alive_even_before_it_is_waited_for() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
        process = identify(child.pid)
        assert process.is_alive()
        process.send_signal(signal.SIGKILL)
        until(lambda: not process.is_alive())  # a zombie from here on: its exit status is not read
        assert identify(child.pid) == process
        assert child.wait() == -signal.SIGKILL
    with pytest.raises(psutil.NoSuchProcess):
        identify(child.pid)
    process.send_signal(signal.SIGKILL)  # nothing to signal, and no error


def test_another_process_with_the_same_pid_is_neither_alive_nor_signalled() -> None:
    own = identify(os.getpid())
    for other in (dataclasses.replace(own, started=1.0), dataclasses.replace(own, boot="another")):
        assert not other.is_alive()
        other.send_signal(signal.SIGKILL)


PARENT = """
import json
from tasks.common.child import ComputeChild, run_child
run_child(ComputeChild("test", "computing_child", ("wait",)), lambda report: print(json.dumps(report), flush=True))
"""


def child(what: str, stdin: bytes = b"") -> ComputeChild:
    return ComputeChild("test", "computing_child", (what,), stdin)


@pytest.mark.parametrize(
    ("what", "said", "error", "reason"),
    [
        ("refuse", "", ChildFailed, "^two lines of a reason$"),
        ("break_off", "", ChildFailed, "^the test process was ended by signal 9; if no one sent it, memory ran out$"),
        ("silent", "", ChildFailed, "^the test process ended with code 0 without a message$"),
        # That the memory of the card was full is an error of its own, and one that only resembles it is not.
        ("fill", "torch", CardMemoryFull, r"^torch\.OutOfMemoryError: CUDA out of memory\. Tried to allocate 2\."),
        ("fill_context", "out of memory", CardMemoryFull, "^RuntimeError: CUDA error: out of memory$"),
        ("mention", "", ChildFailed, "another"),
        ("fill", "other", ChildFailed, "out of memory"),
    ],
)
def test_it_fails_in_one_sentence(what: str, said: str, error: type[Exception], reason: str) -> None:
    with pytest.raises(error, match=reason) as failed:
        run_child(child(what, said.encode()), lambda _: None)
    assert type(failed.value) is error


def test_what_it_leaves_behind_ends_with_it() -> None:
    other = run_child(child("leave"), lambda _: None)["other"]
    until(lambda: not lives(other))


def test_a_caller_gives_up_on_a_child_that_says_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given a child that has reported once, has a process of its own, and ignores SIGTERM
    monkeypatch.setattr(children, "GRACE_S", 0.5)
    told: list[Mapping[str, Any]] = []

    def check() -> None:
        if told:
            raise InterruptedError("cancelled")

    # When the caller gives up between two reports, then nothing is left
    with pytest.raises(InterruptedError, match="cancelled"):
        run_child(child("family"), told.append, check)
    [report] = told
    until(lambda: not any(map(lives, report.values())))


def test_it_dies_with_a_parent_that_is_killed() -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}  # for tests/computing_child.py
    command = [sys.executable, "-c", PARENT]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as parent:
        assert parent.stdout is not None
        pid = json.loads(parent.stdout.readline())["pid"]
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        until(lambda: not lives(pid))
