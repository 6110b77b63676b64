"""Runs solutions that nobody has read, each in a confined process of its own (`confinement.py`)."""

from __future__ import annotations

import json
import os
import secrets
import select
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.route import confinement

CHECK_S = 60.0  # a loaded machine may take long to start Python
MIB = 2**20


@dataclass(frozen=True)
class ProcessLimits:
    """Of one process.  `wall_s`, `output_bytes` and `message_bytes` are watched from outside, the rest by the kernel.

    `output_bytes` are those of the standard output, `message_bytes` those of all messages.
    """

    cpu_s: int = 2
    wall_s: float = 10.0
    memory_bytes: int = 512 * MIB
    file_bytes: int = 64 * 1024
    output_bytes: int = 64 * 1024
    message_bytes: int = MIB
    open_files: int = 32

    def of_kernel(self) -> dict[str, int]:
        of_files = {"RLIMIT_FSIZE": self.file_bytes, "RLIMIT_NOFILE": self.open_files, "RLIMIT_CORE": 0}
        return {"RLIMIT_CPU": self.cpu_s, "RLIMIT_AS": self.memory_bytes, **of_files}


@dataclass(frozen=True)
class Execution:
    """What is run: code, then calls of one of its functions, each with JSON values as arguments.

    `look` is what is looked for inside of the process afterwards: `run_tests`, `equality` or `sentinel`.  `expected`
    is for `equality` alone; nothing else lets an expected value into the process.  `file` is the name of a file in the
    working folder that the code may write, "" for none.
    """

    code: str
    entry: str
    arguments: Sequence[Sequence[Any]] = ()
    look: str = "none"
    marker: str = ""
    expected: Sequence[Any] = ()
    file: str = ""


@dataclass
class Ended:
    """What became of it.  All of it is what the process says or did: untrusted, but for the way in which it ended.

    results: of each call `{"value": ...}` or `{"error": ...}`; None when the process did not report them.
    claimed: whether what was looked for was there.  exit_status: None when a signal ended the process.
    late: it was killed at its limit of wall time.  fault: it was killed for a message or output that no solution sends.
    """

    results: list[Any] | None = None
    claimed: bool = False
    exit_status: int | None = None
    late: bool = False
    output: bytes = b""
    file: bytes = b""
    fault: str = ""


@dataclass(frozen=True)
class Sandbox:
    """How solutions are run.  Threads may use it at the same time."""

    limits: ProcessLimits = ProcessLimits()
    python: str = sys.executable

    def check(self) -> None:
        """Raises: RuntimeError where this machine cannot confine a process."""
        with tempfile.TemporaryDirectory(prefix="whetstone-sandbox-") as folder:
            process = self._start(folder, {"check": True}, stderr=subprocess.PIPE)
            try:
                said, errors = process.communicate(timeout=CHECK_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                raise RuntimeError(f"a confined process did not start within {CHECK_S:.0f} s") from None
        if (answer := said.decode().strip()) != "confined":
            raise RuntimeError(answer or f"a confined process ended at once: {errors.decode(errors='replace')[-300:]}")

    def execute(self, execution: Execution) -> Ended:
        """Run one solution to its end or its limits."""
        ours, theirs = socket.socketpair()
        with ours, tempfile.TemporaryDirectory(prefix="whetstone-sandbox-") as folder:
            written = Path(folder, execution.file) if execution.file else None
            if written:
                written.touch()
            order = {"parent": os.getpid(), "channel": theirs.fileno(), "writable": str(written) if written else None}
            with theirs:
                process = self._start(folder, order, pass_fds=[theirs.fileno()], stderr=subprocess.DEVNULL)
            try:
                ended = _Conversation(execution, self.limits, process, ours).run()
            finally:
                process.kill()
                process.communicate()
            ended.exit_status = process.returncode if process.returncode >= 0 else None
            ended.file = written.read_bytes() if written else b""
            return ended

    def _start(self, folder: str, order: dict[str, Any], **options: Any) -> subprocess.Popen[bytes]:
        order |= {"limits": self.limits.of_kernel(), "readable": readable_folders()}
        return subprocess.Popen(
            [self.python, "-P", "-S", "-s", confinement.__file__, json.dumps(order)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            cwd=folder,
            env={"PYTHONHASHSEED": "0", "PYTHONUTF8": "1", "PATH": os.defpath},
            start_new_session=True,  # Ctrl-C ends the grader, and then this
            **options,
        )


def readable_folders() -> list[str]:
    """Where Python's standard library and the shared libraries that it loads are."""
    names = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), f"{sys.base_prefix}/lib"}
    names |= {"/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/share/zoneinfo"}
    return [name for name in sorted(names) if os.access(name, os.R_OK)]


class _Conversation:
    """The messages and the output of one process, until both have ended."""

    def __init__(
        self, execution: Execution, limits: ProcessLimits, process: subprocess.Popen[bytes], channel: socket.socket
    ) -> None:
        assert process.stdout is not None
        self.execution, self.limits, self.process = execution, limits, process
        self.channel, self.output = channel, process.stdout.fileno()
        self.nonce, self.received, self.ended = "", b"", Ended()

    def run(self) -> Ended:
        self._send(self.execution.code)
        sources = {self.channel.fileno(): self._hear, self.output: self._read}
        poll = select.poll()
        for descriptor in sources:
            poll.register(descriptor, select.POLLIN)
        deadline = time.monotonic() + self.limits.wall_s
        while sources and (left := deadline - time.monotonic()) > 0:
            for descriptor, _ in poll.poll(left * 1000):
                if not sources[descriptor]():
                    poll.unregister(descriptor)
                    del sources[descriptor]
        try:
            self.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.ended.late = True
        return self.ended

    def _send(self, message: Any) -> None:
        with suppress(OSError):  # a process that died, or closed its end
            self.channel.sendall(json.dumps(message).encode() + b"\n")

    def _hear(self) -> bool:
        """Take what the process says; False when it can say no more."""
        try:
            heard = self.channel.recv(65536)
        except OSError:
            return False
        self.received += heard
        if len(self.received) > self.limits.message_bytes:
            self._kill("it sends too much")
        while b"\n" in self.received and not self.ended.fault:
            line, _, self.received = self.received.partition(b"\n")
            self._understand(line)
        return bool(heard) and not self.ended.fault

    def _understand(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            return self._kill("it sends what is no message")
        ended = self.ended
        if message == "loaded" and not self.nonce:
            self.nonce = secrets.token_hex(16)
            told = ("entry", "arguments", "look", "marker", "expected")
            self._send({"nonce": self.nonce, **{name: getattr(self.execution, name) for name in told}})
        elif self.nonce and ended.results is None and isinstance(message, dict) and message.get("nonce") == self.nonce:
            found = message.get("results")
            ended.results = found if isinstance(found, list) else None
            ended.claimed = message.get("claimed") is True
        else:
            self._kill("it forges a message")
        return None

    def _read(self) -> bool:
        """Take what the process prints; False when it can print no more."""
        printed = os.read(self.output, 65536)
        self.ended.output += printed
        if len(self.ended.output) > self.limits.output_bytes:
            self._kill("it prints too much")
        return bool(printed) and not self.ended.fault

    def _kill(self, fault: str) -> None:
        self.ended.fault = self.ended.fault or fault
        self.process.kill()
