"""Runs solutions, each in a process of its own: `python -m tasks.route.executor CONTROL`, started by `sandbox.py`.

This program is forked for each solution, so Python starts once.  It never reads a solution, a test or an expected
value: the child that runs the solution gets them over a socket of its own, after it is confined.  It kills the child at
its limit of wall time, and when the grader says so or ends.

Each message to and from a child is one line of JSON.  The child runs the code, says so, gets the calls, makes them, and
reports their results, which the grader compares: what the code does to the child can alter no comparison.
"""

from __future__ import annotations

import builtins
import contextlib
import fcntl
import gc
import json
import os
import select
import shutil
import signal
import site
import socket
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any, NoReturn

from tasks.route.confinement import ProcessLimits, confine, die_with

END = struct.Struct("i?")  # a child's wait status, and whether it ran out of wall time
CHANNEL = 3  # the socket of a child, behind its standard streams
FINISHED = 70
"""The exit status of a child that made all calls, and of one whose code raised: no loophole's."""
KILL = b"kill"


def main() -> None:
    """Serve the grader until it closes the socket whose number is the one argument; then remove the working folder."""
    control = socket.socket(fileno=int(sys.argv[1]))
    sys.path.remove(os.environ.pop("PYTHONPATH"))  # what solutions import is Python's own
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the grader, and then this
    control.sendall(_first_answer())
    gc.freeze()
    with contextlib.suppress(OSError):  # the grader has ended
        _serve_grader(control)
    folder = os.getcwd()
    os.chdir("/")
    shutil.rmtree(folder, ignore_errors=True)


def _serve_grader(control: socket.socket) -> None:
    while True:
        message, descriptors, _flags, _address = socket.recv_fds(control, 4096, 2)
        if not message:
            return
        if message == KILL:  # the child had ended by itself
            continue
        limits, writable = read_order(message)
        channel, output = descriptors
        pid = os.fork()
        if pid == 0:
            control.close()
            _child(channel, output, limits, writable)
        os.close(channel)
        os.close(output)
        control.sendall(END.pack(*_watch(pid, control, limits.wall_s)))


def order(limits: ProcessLimits, writable: Path | None) -> bytes:
    """What the grader sends with a child's socket and output."""
    return json.dumps([vars(limits), None if writable is None else str(writable)]).encode()


def read_order(message: bytes) -> tuple[ProcessLimits, Path | None]:
    """The limits of a child, and the file that it may write."""
    limits, writable = json.loads(message)
    return ProcessLimits(**limits), None if writable is None else Path(writable)


def _first_answer() -> bytes:
    """ "ready", or why nothing can be run here: a child is confined, and tries what it must not be able to do."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writing, _found_wanting().encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        reason = answer.read()
    _, status = os.waitpid(pid, 0)
    return b"ready" if reason == b"confined" and status == 0 else reason or b"a confined process died at once"


def _found_wanting() -> str:
    try:
        confine(ProcessLimits(), None)
    except OSError as error:
        return str(error.strerror or error)
    attempts: dict[str, Callable[[], object]] = {
        "read other files": lambda: os.listdir("/"),
        "write files": lambda: os.open("escaped", os.O_CREAT | os.O_WRONLY),
        "start a process": lambda: os.fork() or os._exit(0),
        "open a socket": socket.socket,
        "signal a process": lambda: os.kill(os.getppid(), 0),
    }
    for name, attempt in attempts.items():
        with contextlib.suppress(OSError):
            attempt()
            return f"a confined process can still {name} here"
    return "confined"


def _watch(pid: int, control: socket.socket, wall_s: float) -> tuple[int, bool]:
    """Wait for a child, until its time is over or the grader speaks or ends; then kill it."""
    process = os.pidfd_open(pid)
    watched: list[Any] = [process, control]
    readable, _, _ = select.select(watched, [], [], wall_s)
    if process not in readable:
        signal.pidfd_send_signal(process, signal.SIGKILL)
        if readable:
            control.recv(len(KILL))  # empty when the grader has ended
    _, status = os.waitpid(pid, 0)
    os.close(process)
    return status, not readable


def _child(channel: int, output: int, limits: ProcessLimits, writable: Path | None) -> NoReturn:
    """Run one solution in this process, which never returns."""
    status = FINISHED
    try:
        die_with(os.getppid(), signal.SIGKILL)
        nothing = os.open(os.devnull, os.O_RDWR)
        moved = [fcntl.fcntl(source, fcntl.F_DUPFD, 32) for source in (nothing, output, nothing, channel)]
        for target, source in enumerate(moved):  # the last of them is CHANNEL
            os.dup2(source, target)
        os.closerange(CHANNEL + 1, 256)
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115
        confine(limits, writable)
        _serve(os.fdopen(CHANNEL, "rb"), limits)
    except SystemExit as exited:
        code = exited.code
        status = 0 if code is None else code & 0xFF if isinstance(code, int) else 1
    except BaseException:  # whatever the code raises, KeyboardInterrupt too
        pass
    with contextlib.suppress(BaseException):
        sys.stdout.flush()
    os._exit(status)


def _serve(messages: Any, limits: ProcessLimits) -> None:
    """The conversation with the grader."""
    encode, write, exit_type = json.JSONEncoder().encode, os.write, SystemExit

    def send(message: Any) -> None:
        line = memoryview(encode(message).encode() + b"\n")
        while line:
            line = line[write(CHANNEL, line) :]

    order = json.loads(messages.readline())
    site.setquit()  # exit() and quit()
    space: dict[str, Any] = {"__name__": "solution", "__builtins__": builtins}
    exec(_compiled(order["code"]), space)
    send("loaded")
    calls = json.loads(messages.readline())
    results: list[Any] = []
    values: list[Any] = []
    for arguments in calls["arguments"]:
        try:
            values.append(space[calls["entry"]](*arguments))
            results.append({"value": json.loads(encode(values[-1]))})
        except exit_type:
            raise
        except BaseException as error:
            results.append({"error": type(error).__name__})
    claimed = _claims(calls, space, values)
    sys.stdout.flush()
    send({"nonce": calls["nonce"], "results": results, "claimed": claimed})


def _compiled(code: str) -> CodeType:
    return compile(code, "solution.py", "exec", dont_inherit=True)


def _claims(calls: dict[str, Any], space: dict[str, Any], values: list[Any]) -> bool:
    """What a loophole looks for inside of the process that runs the code."""
    match calls["look"]:
        case "run_tests" if calls["marker"] in space:
            space[calls["marker"]]()
            return True
        case "equality" if len(values) == len(calls["expected"]):
            pairs = zip(values, calls["expected"], strict=True)
            return all(getattr(value, calls["marker"])(expected) is True for value, expected in pairs)
        case "sentinel":
            return getattr(space.get(calls["entry"]), calls["marker"], None) is True
    return False


if __name__ == "__main__":
    main()
