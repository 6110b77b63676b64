"""The worker's side of a child that computes: start it, follow its reports, stop it, and read its result.

The worker has its memory back when the child ends.  The child dies with its parent (on Linux, even with one that is
killed), and whatever it has started and left in its group ends with it.  This side imports nothing heavy.
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
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import IO, Any

import tasks
from tasks.common import die_with_parent

GRACE_S = 5.0  # between SIGTERM and SIGKILL
CHECK_S = 0.5  # how often a caller may give up on a child that says nothing
READ_BYTES = 65_536
CARD_MEMORY_FULL = re.compile(
    r"^torch\.(cuda\.)?OutOfMemoryError: |CUDA (driver )?error: out of memory"
    r"|(CUBLAS|CUDNN)_STATUS_(ALLOC_FAILED|NOT_INITIALIZED)"
)
"""What torch says when its allocator, a context, or a library that allocates by itself finds no memory on a card."""

Report = Mapping[str, Any]
"""One line of the child: a JSON object."""


class ChildFailed(RuntimeError):
    """A child ended without a result: its own sentence, or how it ended."""


class CardMemoryFull(ChildFailed):
    """The memory of its card was used up, by the child itself or by all who share the card."""


@dataclass(frozen=True)
class ComputeChild:
    """`python -m module arguments`, which reads `stdin`; `environment` is added to this process's own.

    `name` is what a message calls it, as in "the clustering process".
    """

    name: str
    module: str
    arguments: tuple[str, ...] = ()
    stdin: bytes = b""
    environment: Mapping[str, str] = field(default_factory=dict)


def run_child(
    child: ComputeChild, on_report: Callable[[Report], None], check: Callable[[], None] = lambda: None
) -> dict[str, Any]:
    """Run the child to its end and return its result (`tasks/common/child.py`).

    `on_report` is called with each of its reports, `check` at least every `CHECK_S` seconds.  When this call is
    interrupted, also by one of the two raising or by a task's hard limit, the child is stopped.  Call it from a thread
    that lives until it returns.
    """
    with tempfile.TemporaryFile() as errors, tempfile.TemporaryFile() as given:
        given.write(child.stdin)
        given.seek(0)
        result: dict[str, Any] | None = None
        process = _start(child, given, errors)
        try:
            for line in _lines(process, check):
                report = json.loads(line)
                if "result" in report:
                    result = report["result"]
                else:
                    on_report(report)
            while not _has_ended(process):
                check()
                time.sleep(CHECK_S / 10)  # waitid has no limit of time, and `check` may stop the wait
        finally:
            code = _stop(process)
        if code != 0 or result is None:
            raise _failure(child.name, code, errors)
    return result


def _start(child: ComputeChild, stdin: IO[bytes], stderr: IO[bytes]) -> subprocess.Popen[bytes]:
    # So that the child finds this package where it is not installed and the working folder is another.
    package = Path(str(tasks.__file__)).resolve().parent.parent
    path = os.pathsep.join(filter(None, [str(package), os.environ.get("PYTHONPATH", "")]))
    return subprocess.Popen(
        [
            *(sys.executable, "-I", "-S", die_with_parent.__file__, str(os.getpid()), str(int(signal.SIGKILL))),
            *(sys.executable, "-m", child.module, *child.arguments),
        ],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=stderr,
        env={**os.environ, **child.environment, "PYTHONPATH": path},
        # Ctrl+C in a terminal then reaches the parent alone, which stops the child and its group.
        start_new_session=True,
    )


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
                if _has_ended(process) and not selector.select(0):
                    return
                continue
            read = os.read(process.stdout.fileno(), READ_BYTES)
            if not read:
                return
            *lines, rest = (rest + read).split(b"\n")
            yield from lines
            check()


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether it has ended; it keeps its pid, and so the name of its group, until `_stop`."""
    if process.returncode is not None:
        return True
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _stop(process: subprocess.Popen[bytes]) -> int:
    """End the child and all that it left in its group; returns its exit code."""
    if not _has_ended(process):
        process.terminate()
        deadline = time.monotonic() + GRACE_S
        while not _has_ended(process) and time.monotonic() < deadline:
            time.sleep(0.02)  # waitid has no limit of time
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    code = process.wait()
    if process.stdout is not None:
        process.stdout.close()
    return code


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
    """The lines of the last message: all after the frames of its traceback, which are indented.

    CUDA's own messages end with lines of advice.
    """
    frames = [place for place, line in enumerate(lines) if line.startswith(" ")]
    return lines[frames[-1] + 1 :] if frames else lines[-1:]


_QUIET = {"TQDM_DISABLE": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1", "TRANSFORMERS_VERBOSITY": "error"}

SendReport = Callable[..., None]
"""Sends its keyword arguments to the parent, as one report."""


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
    """Exit in order, so that what is unfinished is removed."""
    raise SystemExit(128 + number)
