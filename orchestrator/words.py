"""Words of users and of files on their way back to a terminal: nothing in them acts on it."""

from __future__ import annotations

import argparse
from typing import NoReturn


def safe(text: str) -> str:
    """`text` with what is not printable as its Python escape; line ends stay."""
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode("ascii") for c in text)


class Parser(argparse.ArgumentParser):
    """argparse's, whose errors are safe to show."""

    def error(self, message: str) -> NoReturn:
        super().error(safe(message))
