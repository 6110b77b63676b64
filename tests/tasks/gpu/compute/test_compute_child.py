"""The child's side: what it says on its two streams, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[3]


def start(what: str) -> subprocess.Popen[str]:
    path = os.pathsep.join([str(TESTS), str(TESTS.parent)])
    return subprocess.Popen(
        [sys.executable, "-m", "computing_child", what],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )


def test_standard_output_is_for_reports_and_the_result_alone() -> None:
    out, errors = start("echo").communicate()
    reports = [json.loads(line) for line in out.splitlines()]
    assert reports[-1] == {"result": {"given": ""}} and [report["done"] for report in reports[:-1]] == [1, 2]
    assert errors == "a library says hello\n"


def test_sigterm_ends_it_in_order() -> None:
    with start("tidy") as child:
        assert child.stdout is not None
        unfinished = Path(json.loads(child.stdout.readline())["unfinished"])
        assert unfinished.exists()
        child.send_signal(signal.SIGTERM)
        assert child.wait(timeout=10) == 128 + signal.SIGTERM
    assert not unfinished.exists()
