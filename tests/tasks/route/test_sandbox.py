"""Solutions that nobody has read: what a confined process can do, and 80 that attack their grader."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from farm_bench import until

from tasks.route.grading import Execution, Sandbox, solves
from tasks.route.problems import Problem, Test

TESTS = [Test([number], 2 * number) for number in range(1, 7)]
DOUBLE = Problem("double", "train", 1, "Double.", "double(number)", TESTS, "def double(n): return 2 * n")
PROBLEMS = Path(__file__).parents[3] / "configs" / "routing" / "problems.jsonl"
ATTACKS = re.findall(
    r"^#: (.+?)( \(quick\))?\n(.+?)(?=^#: |\Z)",
    Path(__file__).with_name("hostile_completions.txt").read_text(),
    re.M | re.S,
)
# What an attack may use.  Where it could succeed quietly it tries so that success prints ESCAPED.
PRELUDE = """
import ctypes, os, sys
outside, problems = {outside!r}, {problems!r}
def attempt(action):
    try:
        found = action()
    except (OSError, RuntimeError, ImportError, EOFError):
        return
    print("ESCAPED", repr(found)[:200], flush=True)
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *values):
    found = libc.syscall(ctypes.c_long(number), *values)
    if found < 0:
        raise OSError(ctypes.get_errno())
    return found
"""


@pytest.fixture(scope="module")
def sandbox(confinement: None) -> Sandbox:
    return Sandbox(cpu_s=1, wall_s=3.0)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    (tmp_path / "witness").write_text("as it was")
    os.utime(tmp_path / "witness", (1_000_000, 1_000_000))
    return tmp_path


def escapes(code: str, outside: Path, sandbox: Sandbox) -> bool:
    """Whether this code does what it must not, or passes for a solution."""
    armed = PRELUDE.format(outside=str(outside), problems=str(PROBLEMS)) + code
    ended = sandbox.execute(Execution(armed, "double", [test.arguments for test in DOUBLE.tests]))
    return b"ESCAPED" in ended.output or solves(DOUBLE, armed, sandbox)


@pytest.mark.parametrize(
    "code",
    [pytest.param(code, id=name, marks=() if quick else pytest.mark.long) for name, quick, code in ATTACKS],
)
def test_an_attack_ends_within_limits_changes_nothing_and_fools_nobody(
    code: str, sandbox: Sandbox, outside: Path
) -> None:
    others = set(psutil.Process().children(recursive=True))  # of earlier tests: functions that wait for their next call
    started = time.monotonic()
    assert not escapes(code, outside, sandbox)
    assert time.monotonic() - started < 2 * sandbox.wall_s + 20
    witness = outside / "witness"
    assert os.listdir(outside) == ["witness"]
    assert witness.read_text() == "as it was"
    found = witness.stat()
    assert (found.st_mtime, found.st_nlink, found.st_uid, found.st_mode & 0o111) == (1_000_000, 1, os.getuid(), 0)
    assert "escaped" not in os.listdir("/dev/shm")
    assert set(psutil.Process().children(recursive=True)) <= others
    assert solves(DOUBLE, DOUBLE.reference, sandbox)


def test_the_means_of_an_attack_report_success(sandbox: Sandbox, outside: Path) -> None:
    for code in ("attempt(lambda: open(os.__file__))", "attempt(lambda: call(39))"):
        assert escapes(code, outside, sandbox)


def test_a_solution_has_the_standard_library_an_empty_input_and_nothing_else(sandbox: Sandbox) -> None:
    code = "import collections, decimal, functools, heapq, itertools, math, re, sys\nread = sys.stdin.read()"
    assert sandbox.execute(Execution(f"{code}\ndef f(): return read", "f", [[]])).results == [{"value": ""}]
    for name in ("numpy", "tasks.route.problems", "pytest"):
        assert sandbox.execute(Execution(f"import {name}\ndef f(): return 1", "f", [[]])).results is None


def test_what_runs_ends_with_its_grader(confinement: None) -> None:
    script = "from tasks.route.grading import *\nSandbox().execute(Execution('while True: pass', 'f'))"
    grader = subprocess.Popen([sys.executable, "-c", script])
    until(lambda: bool(psutil.Process(grader.pid).children()))
    running = psutil.Process(grader.pid).children()
    grader.kill()
    grader.wait()
    _, alive = psutil.wait_procs(running, 10)
    assert alive == []


def test_a_machine_that_cannot_confine_says_why(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(
        f'#!{sys.executable}\nimport json, platform, sys\nsys.path.append("{PROBLEMS.parents[2]}")\n'
        'from tasks.route.confinement import main\nplatform.machine = lambda: "sparc"\n'
        "main(**json.loads(sys.argv[-1]))\n"
    )
    python.chmod(0o755)
    with pytest.raises(RuntimeError, match="on x86-64 only, not on linux on sparc"):
        Sandbox(python=str(python)).check()


def test_root_keeps_no_capability() -> None:
    script = "from tasks.route.confinement import *\ndrop_capabilities()\nprint(open('/proc/self/status').read())"
    status = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert re.findall(r"(?:CapPrm|CapEff):\s+(\w+)", status) == ["0" * 16] * 2
