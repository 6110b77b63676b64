"""Processes: children that are Python modules, and which process a pid means.

A child dies with its parent (on Linux, even with one that is killed), and whatever it has started and left in its group
ends with it.  The worker has the memory of a child that computes back when it ends.
"""

from __future__ import annotations

import json
import logging
import os
import re
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FrameType
from typing import IO, Any

import psutil

GRACE_S = 5.0  # between SIGTERM and SIGKILL
CHECK_S = 0.5  # how often a caller may give up on a child that says nothing
READ_BYTES = 65_536
CARD_MEMORY_FULL = re.compile(
    r"^torch\.(cuda\.)?OutOfMemoryError: |CUDA (driver )?error: out of memory"
    r"|(CUBLAS|CUDNN)_STATUS_(ALLOC_FAILED|NOT_INITIALIZED)"
)
"""What torch says when its allocator, a context, or a library that allocates by itself finds no memory on a card."""

_EXECUTE = """
import ctypes, os, sys
parent, number, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, number)  # PR_SET_PDEATHSIG, which outlives exec
    if os.getppid() != parent:  # it died before we asked
        os.kill(os.getpid(), number)
try:
    os.execvp(command[0], command)
except OSError as error:
    sys.exit(f"cannot run {command[0]}: {error.strerror}")
"""


def dying_with_parent(command: Sequence[str], number: signal.Signals) -> list[str]:
    """The command, in a form that the kernel signals when the thread that has started it ends (Linux).

    It is a program of its own, since Python code between fork and exec is not safe in a process that has threads.
    """
    return [sys.executable, "-I", "-S", "-c", _EXECUTE, str(os.getpid()), str(int(number)), *command]


def start_child(
    module: str, arguments: Sequence[str] = (), environment: Mapping[str, str] = {}, **options: Any
) -> subprocess.Popen[bytes]:
    """`python -m module arguments`, which finds the modules that this process finds.

    It has a session of its own: Ctrl+C in a terminal reaches the parent alone, which stops the child and its group.
    """
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    return subprocess.Popen(
        dying_with_parent([sys.executable, "-P", "-m", module, *arguments], signal.SIGKILL),
        env={**os.environ, **environment, "PYTHONPATH": path},
        start_new_session=True,
        **options,
    )


def has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether a child has ended; it keeps its pid, and so the name of its group, until `stop_child`."""
    if process.returncode is not None:
        return True
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def wait_ended(process: subprocess.Popen[bytes], limit_s: float) -> bool:
    """Whether it ends within so many seconds."""
    deadline = time.monotonic() + limit_s
    while not (ended := has_ended(process)) and time.monotonic() < deadline:
        time.sleep(0.02)  # waitid has no limit of time
    return ended


def stop_child(process: subprocess.Popen[bytes], grace_s: float) -> int:
    """End a child, after SIGTERM and `grace_s` seconds, and all that it left in its group; returns its exit code."""
    if grace_s and not has_ended(process):
        process.terminate()
        wait_ended(process, grace_s)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    code = process.wait()
    if process.stdout is not None:
        process.stdout.close()
    return code


Report = Mapping[str, Any]  # one line of the child: a JSON object


class ChildFailed(RuntimeError):
    """It ended without a result: its own sentence, or how it ended."""


class CardMemoryFull(ChildFailed):
    """The memory of its card was used up, by the child itself or by all who share the card."""


@dataclass(frozen=True)
class ComputeChild:
    """`python -m module arguments`, which reads `stdin`; `environment` is added to this process's own."""

    name: str  # what a message calls it, as in "the clustering process"
    module: str
    arguments: tuple[str, ...] = ()
    stdin: bytes = b""
    environment: Mapping[str, str] = field(default_factory=dict)


def run_child(
    child: ComputeChild, on_report: Callable[[Report], None], check: Callable[[], None] = lambda: None
) -> dict[str, Any]:
    """Run the child to its end and return its result; call it from a thread that lives until it returns.

    `on_report` is called with each of its reports, `check` at least every `CHECK_S` seconds.  When this call is
    interrupted, also by one of the two raising, the child is stopped.
    """
    with tempfile.TemporaryFile() as errors, tempfile.TemporaryFile() as given:
        given.write(child.stdin)
        given.seek(0)
        result: dict[str, Any] | None = None
        process = start_child(
            child.module, child.arguments, child.environment, stdin=given, stdout=subprocess.PIPE, stderr=errors
        )
        try:
            for line in _lines(process, check):
                report = json.loads(line)
                if "result" in report:
                    result = report["result"]
                else:
                    on_report(report)
            while not has_ended(process):
                check()
                time.sleep(CHECK_S / 10)  # waitid has no limit of time, and `check` may stop the wait
        finally:
            code = stop_child(process, GRACE_S)
        if code != 0 or result is None:
            raise _failure(child.name, code, errors)
    return result


def _lines(process: subprocess.Popen[bytes], check: Callable[[], None]) -> Iterator[bytes]:
    """What the child writes, by line, until it closes its standard output or ends."""
    assert process.stdout is not None
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            if not selector.select(CHECK_S):
                check()
                # What the child has started may hold its output open for longer than it lives.
                if has_ended(process) and not selector.select(0):
                    return
                continue
            read = os.read(process.stdout.fileno(), READ_BYTES)
            if not read:
                return
            *lines, rest = (rest + read).split(b"\n")
            yield from lines
            check()


def _failure(name: str, code: int, errors: IO[bytes]) -> ChildFailed:
    if code < 0:
        return ChildFailed(f"the {name} process was ended by signal {-code}; if no one sent it, memory ran out")
    errors.seek(0)
    lines = errors.read().decode("utf-8", "replace").strip().splitlines()
    if not lines:
        return ChildFailed(f"the {name} process ended with code {code} without a message")
    said = _last_error(lines)
    full = [line for line in said if CARD_MEMORY_FULL.search(line)]
    return CardMemoryFull(full[0]) if full else ChildFailed(" ".join(said))


def _last_error(lines: list[str]) -> list[str]:
    """The lines after the frames of the last traceback, which are indented; CUDA's messages end with advice."""
    frames = [place for place, line in enumerate(lines) if line.startswith(" ")]
    return lines[frames[-1] + 1 :] if frames else lines[-1:]


_QUIET = {"TQDM_DISABLE": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1", "TRANSFORMERS_VERBOSITY": "error"}

SendReport = Callable[..., None]  # its keyword arguments are one report to the parent


def work_as_child(work: Callable[[SendReport], Mapping[str, Any]], *foreseen: type[Exception]) -> int:
    """Do `work`, send what it returns as the result, and return the exit status.  `foreseen` errors are one line."""
    signal.signal(signal.SIGTERM, _exit)
    os.environ.update(_QUIET)
    logging.disable(logging.WARNING)  # standard error is for one line of error
    # Libraries may print to standard output, which is for the JSON lines alone.
    lines, sys.stdout = sys.stdout, sys.stderr

    def send(**values: Any) -> None:
        print(json.dumps(values), file=lines, flush=True)

    try:
        send(result=dict(work(send)))
    except foreseen as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        return 1
    return 0


def _exit(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


@dataclass(frozen=True)
class ProcessIdentity:
    """One process, told from all others with its pid: neither depends on the wall clock, which may be set.

    `started` is in seconds since boot, as psutil has it, `boot` the kernel's id of that boot ("" without /proc).
    """

    pid: int
    started: float
    boot: str

    def is_alive(self) -> bool:
        """Whether this very process runs; a zombie, which only waits for its parent to read its status, does not."""
        return self._process() is not None

    def send_signal(self, number: signal.Signals) -> None:
        """Signal this very process; nothing happens when it has ended."""
        with suppress(psutil.NoSuchProcess):
            if (process := self._process()) is not None:
                process.send_signal(number)

    def _process(self) -> psutil.Process | None:
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(self.pid)
            is_same = (self.started, self.boot) == (_started(process), boot_id())
            return process if is_same and process.status() != psutil.STATUS_ZOMBIE else None
        return None


def identify(pid: int) -> ProcessIdentity:
    """The process that has this pid now, also one that has ended and was not waited for.  Raises: NoSuchProcess."""
    return ProcessIdentity(pid, _started(psutil.Process(pid)), boot_id())


@cache
def boot_id() -> str:
    """The kernel's id of the present boot; "" where there is no /proc."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


@cache
def pid_namespace() -> str:
    """Which processes this one sees under which pids: a container has pids of its own.  "" where that is not known."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _started(process: psutil.Process) -> float:
    return float(process._ident[1] or 0)  # `create_time()` moves with each step of the clock
