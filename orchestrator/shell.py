"""Commands that a person may copy from what is printed into a shell."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from tasks.escape import escape_control


def command_line(*words: str | Path) -> str:
    """`orchestrator` with these arguments, quoted for a POSIX shell.

    A word with characters that could act on a terminal is written as bash and zsh read it, `$'...'` with escapes.  A
    path that begins with a hyphen gets `./` before it.
    """
    return " ".join(["orchestrator", *map(_quoted, words)])


def _quoted(word: str | Path) -> str:
    text = f"./{word}" if isinstance(word, Path) and str(word).startswith("-") else str(word)
    if text.isprintable():
        return shlex.quote(text)
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\t", "\\t")
    # A byte that is not UTF-8 is a lone surrogate in Python.
    escaped = re.sub("[\udc80-\udcff]", lambda found: f"\\x{ord(found[0]) - 0xDC00:02x}", escaped)
    return f"$'{escape_control(escaped)}'"
