"""What all commands share with their terminal and process: exit statuses, lines on standard error, signals."""

from __future__ import annotations

import io
import os
import select
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from tasks.common.text import escape_control

DONE, WRONG, BROKEN, PARKED, IN_USE = 0, 1, 2, 3, 4  # cli.EPILOG says what each means
BY_SIGNAL = 128  # added to the number of the signal that ended a command
INTERRUPTED, OUTPUT_CLOSED = BY_SIGNAL + signal.SIGINT, BY_SIGNAL + signal.SIGPIPE

ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def fail(status: int, *lines: str) -> int:
    for line in lines:
        print(f"orchestrator: {escape_control(line, keep_lines=True)}", file=sys.stderr)
    return status


def command_line(*words: str | Path) -> str:
    """`orchestrator` with these arguments, quoted for a POSIX shell and safe to print."""
    return escape_control(shlex.join(["orchestrator", *map(str, words)]))


class LossyFile(io.FileIO):
    """A file descriptor that takes every write: no work is aborted for what is only printed."""

    def write(self, data: Any) -> int:
        try:
            while (written := super().write(data)) is None:  # another process has made the pipe non-blocking
                select.select([], [self.fileno()], [])
        except OSError:
            return memoryview(data).nbytes
        return written


def open_output() -> None:
    """Open descriptors that were closed (`>&-`), so that no file of the program gets their numbers."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free number is taken
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)
    if sys.stdout is sys.__stdout__:
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # names of files may not be UTF-8


def keep_running_without_output() -> None:
    """What a run prints may be lost: its reader ends, its disk is full, its terminal hangs up."""
    for name, stream in (("stdout", sys.__stdout__), ("stderr", sys.__stderr__)):
        if stream is not None and getattr(sys, name) is stream:
            raw = io.BufferedWriter(LossyFile(stream.fileno(), "wb", closefd=False))
            lossy = io.TextIOWrapper(raw, stream.encoding, "backslashreplace", line_buffering=stream.isatty())
            setattr(sys, name, lossy)


def abandon_output() -> None:
    """What could not be written is lost; otherwise Python would report it once more at its end."""
    if sys.stdout is sys.__stdout__:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


QUIET_S = 20.0
"""After so long without a line a command says what it waits for."""


@contextmanager
def ticking(line: Callable[[str], None], what: Callable[[], str]) -> Iterator[None]:
    """While the block lasts, `line` is told what it waits for and for how long already, from a thread."""
    ended, began = threading.Event(), time.monotonic()

    def tick() -> None:
        while not ended.wait(QUIET_S):
            line(f"{what()} ({time.monotonic() - began:.0f} s so far)")

    thread = threading.Thread(target=tick, daemon=True, name="ticking")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def say(line: str) -> None:
    """To standard error, at once."""
    print(escape_control(line), file=sys.stderr, flush=True)


class Terminated(BaseException):
    """SIGTERM, or SIGHUP where the terminal has gone; handled like Ctrl+C."""

    def __init__(self, number: int = signal.SIGTERM) -> None:
        super().__init__("the terminal hung up" if number == signal.SIGHUP else "terminated")
        self.number = number


def raise_on_signals() -> None:
    """From now on signals raise in the main thread: Ctrl+C KeyboardInterrupt, SIGTERM and SIGHUP `Terminated`.

    SIGINT and SIGHUP that are ignored, as in a background job and by `nohup`, stay ignored.
    """
    if not _is_main():  # a run was started from Python, in a thread
        return

    def terminate(number: int, frame: FrameType | None) -> None:
        raise Terminated(number)

    signal.signal(signal.SIGTERM, terminate)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, terminate)
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def ignore_signals() -> None:
    """From now on neither Ctrl+C nor a termination interrupts this process, so that a farm is stopped completely."""
    for number in ENDING_SIGNALS if _is_main() else ():
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def signals_restored() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in ENDING_SIGNALS}
    try:
        yield
    finally:
        if _is_main():
            for number, handler in before.items():
                signal.signal(number, handler)


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()


def format_count(number: int, units: str) -> str:
    """`1 generation`, `3 generations`, `1 batch`; `units` is the plural."""
    singular = units.removesuffix("es" if units.endswith("ches") else "s")
    return f"{number:,} {singular if number == 1 else units}"
