"""Untrusted text on its way to a terminal: nothing in it can act there."""

from __future__ import annotations

import argparse
import unicodedata
from typing import NoReturn

LONGEST_QUOTE = 80  # characters of a value in an error message
_ACTING = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}  # Unicode categories


def escape_control(text: str, keep_lines: bool = False) -> str:
    """`text` with a Python escape, as in `\\x1b[31m`, for each character that could act on a terminal.

    These are control characters, direction overrides, zero-width characters and lone surrogates.  Tabs become spaces.
    Line ends stay when `keep_lines` is true and become spaces otherwise.
    """
    line_end = "\n" if keep_lines else " "
    text = text.replace("\r\n", "\n").replace("\n", line_end).replace("\t", "    ")
    return "".join(
        character
        if character == line_end or unicodedata.category(character) not in _ACTING
        else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def quote(value: object) -> str:
    """A value in an error message: as Python writes it, on one line, cut to `LONGEST_QUOTE` characters."""
    if isinstance(value, str):
        return repr(value if len(value) <= LONGEST_QUOTE else value[: LONGEST_QUOTE - 3] + "...")
    if isinstance(value, list | dict):
        return f"a {type(value).__name__} of {len(value)}"
    text = escape_control(repr(value))
    return text if len(text) <= LONGEST_QUOTE else text[: LONGEST_QUOTE - 3] + "..."


class EscapingParser(argparse.ArgumentParser):
    """An `ArgumentParser` whose error messages are safe to print."""

    def error(self, message: str) -> NoReturn:
        super().error(escape_control(message, keep_lines=True))
