"""Runs solutions that nobody has read, each in a confined process of its own (`confinement.py`), one after another.

A helper process (`executor.py`) is started once and forked for each solution.  The grader talks to the fork itself,
over a socket: the helper sees neither code nor tests.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tasks.route import executor
from tasks.route.confinement import ProcessLimits

START_S = 60.0  # a loaded machine may take long to start Python
ANSWER_S = 10.0  # the helper kills at the limit of wall time; later than this after it, the helper is broken
_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Execution:
    """What is run: code, then calls of one of its functions, each with JSON values as arguments."""

    code: str
    entry: str
    arguments: Sequence[Sequence[Any]] = ()
    look: str = "none"
    """What is looked for inside of the process afterwards: `run_tests`, `equality` or `sentinel`."""
    marker: str = ""
    expected: Sequence[Any] = ()
    """For `equality` alone; nothing else lets an expected value into the process."""
    file: str = ""
    """The name of a file in the working folder that the code may write; "" for none."""


@dataclass(frozen=True)
class Ended:
    """What became of it.  All of it is what the process says or did: untrusted, but for the way in which it ended."""

    results: list[Any] | None = None
    """Of each call `{"value": ...}` or `{"error": ...}`; None when the process did not report them."""
    claimed: bool = False
    """Whether what was looked for was there."""
    exit_status: int | None = None
    """None when a signal ended the process."""
    late: bool = False
    """It was killed at its limit of wall time."""
    output: bytes = b""
    file: bytes = b""
    fault: str = ""
    """A message or an output that no solution sends, for which the process was killed."""


@dataclass
class Sandbox:
    """One helper process and its working folder; a context manager, used by one thread at a time.

    Raises on entry: RuntimeError.
    """

    limits: ProcessLimits = field(default_factory=ProcessLimits)
    python: str = sys.executable

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def execute(self, execution: Execution) -> Ended:
        """Run one solution to its end or its limits."""
        try:
            return self._execute(execution)
        except (OSError, EOFError):  # someone killed the helper
            self._stop()
            self._start()
        try:
            return self._execute(execution)
        except (OSError, EOFError) as error:
            raise RuntimeError(f"the process that runs solutions died twice: {error}") from error

    def _start(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="whetstone-sandbox-"))
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                self._helper = subprocess.Popen(
                    [self.python, "-P", "-S", "-s", "-m", executor.__name__, str(theirs.fileno())],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    cwd=self._folder,
                    env={"PYTHONPATH": str(_ROOT), "PYTHONHASHSEED": "0", "PYTHONUTF8": "1", "PATH": os.defpath},
                    start_new_session=True,
                )
        except BaseException:
            self._control.close()
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        self._control.settimeout(START_S)
        try:
            answer = self._control.recv(4096).decode(errors="replace")
        except TimeoutError:
            answer = f"the process that runs solutions did not start within {START_S:.0f} s"
        self._control.settimeout(None)
        if answer != "ready":
            self._stop()
            raise RuntimeError(answer or "the process that runs solutions did not start")

    def _stop(self) -> None:
        self._control.close()  # at which the helper kills what it runs, and ends
        try:
            self._helper.wait(START_S)
        except subprocess.TimeoutExpired:
            self._helper.kill()
            self._helper.wait()
        shutil.rmtree(self._folder, ignore_errors=True)  # a helper that was killed leaves it

    def _execute(self, execution: Execution) -> Ended:
        written = self._folder / execution.file if execution.file else None
        if written:
            written.write_bytes(b"")
        ours, theirs = socket.socketpair()
        reading, writing = os.pipe()
        try:
            try:
                sent = executor.order(self.limits, written)
                socket.send_fds(self._control, [sent], [theirs.fileno(), writing])
            finally:
                theirs.close()
                os.close(writing)
            conversation = _Conversation(execution, self.limits, self._control, ours, reading)
            status, late = conversation.run()
            return Ended(
                conversation.results,
                conversation.claimed,
                os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else None,
                late,
                conversation.output,
                written.read_bytes() if written else b"",
                conversation.fault,
            )
        finally:
            ours.close()
            os.close(reading)
            if written:
                written.unlink(missing_ok=True)


class _Conversation:
    """One child's messages and output, until the helper says that the child has ended."""

    def __init__(
        self, execution: Execution, limits: ProcessLimits, control: socket.socket, channel: socket.socket, reading: int
    ) -> None:
        self.execution, self.limits = execution, limits
        self.control, self.channel, self.reading = control, channel, reading
        self.nonce = ""
        self.received = self.output = b""
        self.results: list[Any] | None = None
        self.claimed, self.fault = False, ""

    def run(self) -> tuple[int, bool]:
        """The child's wait status, and whether it was late."""
        self._send({"code": self.execution.code})
        sources: dict[int, Any] = {self.channel.fileno(): self._hear, self.reading: self._read}
        poll = select.poll()
        for descriptor in (*sources, self.control.fileno()):
            poll.register(descriptor, select.POLLIN)
        deadline, ended = time.monotonic() + self.limits.wall_s + ANSWER_S, b""
        while sources or not ended:
            events = poll.poll(max(0.0, deadline - time.monotonic()) * 1000)
            if not events:
                raise EOFError("it does not answer")
            for descriptor, _ in events:
                if descriptor == self.control.fileno():
                    ended = self.control.recv(executor.END.size)
                    if not ended:
                        raise EOFError("it ended")
                    poll.unregister(descriptor)
                elif not sources[descriptor]():
                    poll.unregister(descriptor)
                    del sources[descriptor]
        status, late = executor.END.unpack(ended)
        return status, late

    def _send(self, message: Any) -> None:
        with contextlib.suppress(OSError):  # a child that died, or closed its end
            self.channel.sendall(json.dumps(message).encode() + b"\n")

    def _hear(self) -> bool:
        """Take what the child says; False when it can say no more."""
        try:
            heard = self.channel.recv(65536)
        except OSError:
            return False
        self.received += heard
        if len(self.received) > self.limits.message_bytes:
            self._kill("it sends too much")
            return False
        while b"\n" in self.received and not self.fault:
            line, _, self.received = self.received.partition(b"\n")
            self._understand(line)
        return bool(heard) and not self.fault

    def _understand(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            return self._kill("it sends what is no message")
        if message == "loaded" and not self.nonce:
            self.nonce = secrets.token_hex(16)
            execution = self.execution
            self._send(
                {
                    "nonce": self.nonce,
                    "entry": execution.entry,
                    "arguments": execution.arguments,
                    "look": execution.look,
                    "marker": execution.marker,
                    "expected": execution.expected,
                }
            )
        elif self.nonce and self.results is None and isinstance(message, dict) and message.get("nonce") == self.nonce:
            found = message.get("results")
            self.results = found if isinstance(found, list) else None
            self.claimed = message.get("claimed") is True
        else:
            self._kill("it forges a message")
        return None

    def _read(self) -> bool:
        """Take what the child prints; False when it can print no more."""
        printed = os.read(self.reading, 65536)
        self.output += printed
        if len(self.output) > self.limits.output_bytes:
            self._kill("it prints too much")
            return False
        return bool(printed)

    def _kill(self, fault: str) -> None:
        if not self.fault:
            self.fault = fault
            self.control.sendall(executor.KILL)
