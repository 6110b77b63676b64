"""Children that compute: Python modules in processes of their own, which send lines of JSON to their parent.

A child dies with its parent (on Linux, even with one that is killed), and whatever it has left in its group ends with
it.  The worker has the memory of a child back when it ends, and goes on whatever the child does.
"""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from io import BufferedRWPair
from multiprocessing.connection import wait
from types import FrameType
from typing import IO, Any

from tasks.common.process import dying_with_parent, has_ended, stop_child, wait_ended

GRACE_S = 5.0  # between SIGTERM and SIGKILL
CHECK_S = 0.5  # how often a caller may give up on a child that says nothing
PART_BYTES = 1 << 16
CARD_MEMORY_FULL = re.compile(
    r"^torch\.(cuda\.)?OutOfMemoryError: |CUDA (driver )?error: out of memory"
    r"|(CUBLAS|CUDNN)_STATUS_(ALLOC_FAILED|NOT_INITIALIZED)"
)
"""What torch says when its allocator, a context, or a library that allocates by itself finds no memory on a card."""


class Child:
    """`python -m module arguments`, with its end of a pipe as the last argument; it finds the modules that we find.

    It has a session of its own: Ctrl+C in a terminal reaches the parent alone.
    """

    def __init__(
        self, module: str, arguments: Sequence[str] = (), environment: Mapping[str, str] = {}, **options: Any
    ) -> None:
        self._pipe, theirs = socket.socketpair()
        self._received = bytearray()
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        with theirs:
            command = [sys.executable, "-P", "-m", module, *arguments, str(theirs.fileno())]
            self.process: subprocess.Popen[bytes] = subprocess.Popen(
                dying_with_parent(command, signal.SIGKILL),
                env={**os.environ, **environment, "PYTHONPATH": path},
                start_new_session=True,
                pass_fds=[theirs.fileno()],
                **options,
            )

    def send(self, value: Any) -> None:
        self._pipe.sendall(json.dumps(value).encode() + b"\n")

    def receive(self, check: Callable[[], None]) -> Any:
        """The next value that it sends, None when it has ended; `check` is called every `CHECK_S` seconds."""
        while (end := self._received.find(b"\n")) < 0:
            if wait([self._pipe], CHECK_S):
                part = b""
                with suppress(ConnectionError):
                    part = self._pipe.recv(PART_BYTES)
                if not part:
                    return None
                self._received += part
                continue
            check()
            # A copy of the child may hold the pipe open for longer than the child lives, also in the middle of a line.
            if has_ended(self.process) and not wait([self._pipe], 0):
                return None
        line = self._received[:end]
        del self._received[: end + 1]
        return json.loads(line)

    def close(self, grace_s: float = 0) -> int:
        """End it and its group; returns its exit code."""
        code = stop_child(self.process, grace_s)
        self._pipe.close()
        return code


def pipe_to_parent() -> BufferedRWPair:
    """In a child: its end of the pipe."""
    return socket.socket(fileno=int(sys.argv.pop())).makefile("rwb")


def send_line(pipe: BufferedRWPair, value: Any) -> None:
    """In a child: send a value to its parent."""
    pipe.write(json.dumps(value).encode() + b"\n")
    pipe.flush()


Report = Mapping[str, Any]  # what the child sends before its result


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

    `on_report` is called with each of its reports, `check` after it and at least every `CHECK_S` seconds.  When this
    call is interrupted, also by one of the two raising, the child is stopped.
    """
    with tempfile.TemporaryFile() as errors, tempfile.TemporaryFile() as given:
        given.write(child.stdin)
        given.seek(0)
        result: dict[str, Any] | None = None
        started = Child(
            child.module, child.arguments, child.environment, stdin=given, stdout=subprocess.DEVNULL, stderr=errors
        )
        try:
            while (report := started.receive(check)) is not None:
                if "result" in report:
                    result = report["result"]
                else:
                    on_report(report)
                check()
            while not wait_ended(started.process, CHECK_S):
                check()
        finally:
            code = started.close(GRACE_S)
        if code != 0 or result is None:
            raise _failure(child.name, code, errors)
    return result


def _failure(name: str, code: int, errors: IO[bytes]) -> ChildFailed:
    if code < 0:
        return ChildFailed(f"the {name} process was ended by signal {-code}; if no one sent it, memory ran out")
    errors.seek(0)
    lines = errors.read().decode("utf-8", "replace").strip().splitlines()
    if not lines:
        return ChildFailed(f"the {name} process ended with code {code} without a message")
    # After the frames of the last traceback, which are indented; CUDA's messages end with advice.
    frames = [place for place, line in enumerate(lines) if line.startswith(" ")]
    said = lines[frames[-1] + 1 :] if frames else lines[-1:]
    full = [line for line in said if CARD_MEMORY_FULL.search(line)]
    return CardMemoryFull(full[0]) if full else ChildFailed(" ".join(said))


SendReport = Callable[..., None]  # its keyword arguments are one report to the parent
_QUIET = {"TQDM_DISABLE": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1", "TRANSFORMERS_VERBOSITY": "error"}


def work_as_child(work: Callable[[SendReport], Mapping[str, Any]], *foreseen: type[Exception]) -> int:
    """Do `work`, send what it returns as the result, and return the exit status.  `foreseen` errors are one line."""
    signal.signal(signal.SIGTERM, _exit)
    os.environ.update(_QUIET)
    logging.disable(logging.WARNING)  # standard error is for one line of error
    pipe = pipe_to_parent()

    def send(**values: Any) -> None:
        send_line(pipe, values)

    try:
        send(result=dict(work(send)))
    except foreseen as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        return 1
    return 0


def _exit(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
