"""Questions to a person at a terminal: an answer that is wrong is explained, and asked for again."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from tasks.escape import escape_control

T = TypeVar("T")

SHOWN = 10
"""Lines of what is wrong with an answer: a file may have a fault in each row."""


class WrongAnswer(ValueError):
    """An answer that cannot be used; the message says why, in one line or a few."""


class NoAnswer(Exception):
    """The terminal's input has ended."""


def can_ask() -> bool:
    """Whether somebody sits at a terminal: what is read comes from one, and what is printed goes to one."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()


def ask(question: str, check: Callable[[str], T], default: str = "") -> T:
    """The checked answer.  An empty one is the default, which stands in brackets behind the question.

    Raises: NoAnswer; KeyboardInterrupt, on a line of its own.
    """
    _edit_lines()
    prompt = f"{question} [{default}]: " if default else f"{question}: "
    while True:
        try:
            given = input(prompt).strip() or default
        except EOFError:
            print()
            raise NoAnswer("the input has ended; nothing was written and nothing was started") from None
        except KeyboardInterrupt:
            print()
            raise
        try:
            return check(given)
        except WrongAnswer as error:
            lines = escape_control(str(error), keep_lines=True).splitlines()
            more = [f"  ... and {len(lines) - SHOWN} lines more"] if len(lines) > SHOWN else []
            print("\n".join([f"  {lines[0]}", *lines[1:SHOWN], *more]))


def _edit_lines() -> None:
    """From now on the arrow keys work in what is typed, and Tab completes names of files."""
    with suppress(ImportError):  # not every Python has it
        import readline

        readline.parse_and_bind("tab: complete")
        readline.set_completer_delims(" =\t\n")


def confirm(question: str, *, default: bool) -> bool:
    """Raises: NoAnswer."""

    def check(given: str) -> bool:
        if given.lower() not in ("y", "yes", "n", "no"):
            raise WrongAnswer("y or n")
        return given.lower().startswith("y")

    return ask(f"{question} (y/n)", check, "y" if default else "n")
