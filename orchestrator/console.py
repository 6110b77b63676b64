"""What all commands share with their terminal and process: exit statuses, lines on standard error, signals."""

from __future__ import annotations

import shlex
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from tasks.common.text import escape_control

DONE, WRONG, BROKEN, PARKED, IN_USE = 0, 1, 2, 3, 4
"""Finished; wrong settings or arguments, and nothing was started; an error while running; parked; another process works
on the run."""
BY_SIGNAL = 128
"""Added to the number of the signal that ended a command."""
INTERRUPTED, OUTPUT_CLOSED = BY_SIGNAL + signal.SIGINT, BY_SIGNAL + signal.SIGPIPE


def fail(status: int, *lines: str) -> int:
    """Print lines to standard error and return the status."""
    for line in lines:
        print(f"orchestrator: {escape_control(line, keep_lines=True)}", file=sys.stderr)
    return status


def command_line(*words: str | Path) -> str:
    """`orchestrator` with these arguments, quoted for a POSIX shell and safe to print."""
    return escape_control(shlex.join(["orchestrator", *map(str, words)]))


ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Terminated(BaseException):
    """SIGTERM, or SIGHUP where the terminal has gone; handled like Ctrl+C."""

    def __init__(self, number: int = signal.SIGTERM) -> None:
        super().__init__("the terminal hung up" if number == signal.SIGHUP else "terminated")
        self.number = number


def raise_on_signals() -> None:
    """From now on signals raise in the main thread: Ctrl+C KeyboardInterrupt, SIGTERM and SIGHUP `Terminated`.

    SIGINT and SIGHUP that are ignored, as in a background job and by `nohup`, stay ignored.  In another thread than the
    main one, where a run was started from Python, nothing changes: no signal raises there.
    """
    if not _is_main():
        return
    signal.signal(signal.SIGTERM, _terminate)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _terminate)
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated(number)


def ignore_signals() -> None:
    """From now on neither Ctrl+C nor a termination interrupts this process, so that a farm is stopped completely."""
    for number in ENDING_SIGNALS if _is_main() else ():
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def signals_restored() -> Iterator[None]:
    """After the block, signals do what they did before it."""
    before = {number: signal.getsignal(number) for number in ENDING_SIGNALS}
    try:
        yield
    finally:
        if _is_main():
            for number, handler in before.items():
                signal.signal(number, handler)


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()
