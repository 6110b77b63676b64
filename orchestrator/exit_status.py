"""The exit statuses of the commands, and the lines on standard error that come with them."""

from __future__ import annotations

import signal
import sys

from tasks.escape import escape_control

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
