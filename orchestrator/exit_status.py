"""The exit statuses of the commands, and the lines on standard error that come with them."""

from __future__ import annotations

import sys

from tasks.escape import escape_control

DONE, WRONG, BROKEN, PARKED, INTERRUPTED, TERMINATED = 0, 1, 2, 3, 130, 143
"""Finished; wrong settings or arguments; an error while running; parked; ended by SIGINT and by SIGTERM."""


def fail(status: int, *lines: str) -> int:
    """Print lines to standard error and return the status."""
    for line in lines:
        print(f"orchestrator: {escape_control(line, keep_lines=True)}", file=sys.stderr)
    return status
