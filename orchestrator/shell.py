"""Commands that a person may copy from what is printed into a shell."""

from __future__ import annotations

import shlex
from pathlib import Path

from tasks.escape import escape_control


def command_line(*words: str | Path) -> str:
    """`orchestrator` with these arguments, quoted for a POSIX shell and safe to print."""
    return escape_control(shlex.join(["orchestrator", *map(str, words)]))
