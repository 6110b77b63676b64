"""Text that came from a model or a file, made safe and narrow enough for a terminal.

Words of users and of files on their way back to a terminal: nothing in them acts on it.
"""

from __future__ import annotations

import argparse
import unicodedata
from typing import NoReturn

from rich.cells import cell_len, chop_cells

_UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def neutral(text: str, keep_lines: bool = False) -> str:
    """Show every character that could act on a terminal instead of sending it.

    Control characters, escapes, direction overrides, zero-width characters and lone surrogates become their Python
    escapes, as in `\\x1b[31m`. Tabs become spaces; line ends stay when `keep_lines`, else they become spaces.
    """
    line_end = "\n" if keep_lines else " "
    text = text.replace("\r\n", "\n").replace("\n", line_end).replace("\t", "    ")
    return "".join(
        character
        if character == line_end or unicodedata.category(character) not in _UNSEEN
        else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def wrap(text: str, width: int) -> list[str]:
    """Lines of at most `width` cells, broken at spaces where there are any; its own line ends are kept.

    `width` is at least 2, the width of the widest character.  The text must be `neutral` already.
    """
    lines: list[str] = []
    for paragraph in text.split("\n"):
        line = ""
        for word in paragraph.split(" "):
            joined = f"{line} {word}" if line else word
            if cell_len(joined) <= width:
                line = joined
                continue
            if line:
                lines.append(line)
            pieces = chop_cells(word, width) or [""]
            lines += pieces[:-1]
            line = pieces[-1]
        lines.append(line)
    return lines


def pad(text: str, width: int) -> str:
    """`text` filled with spaces to `width` cells; longer text is returned as it is."""
    return text + " " * max(0, width - cell_len(text))


def clip(text: str, width: int) -> str:
    """`text` in at most `width` cells, with an ellipsis where it was cut."""
    if cell_len(text) <= width:
        return text
    return (chop_cells(text, width - 1)[0] if width > 1 else "") + "…"


def safe(text: str) -> str:
    """`text` with what is not printable as its Python escape; line ends stay."""
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode("ascii") for c in text)


class Parser(argparse.ArgumentParser):
    """argparse's, whose errors are safe to show."""

    def error(self, message: str) -> NoReturn:
        super().error(safe(message))
