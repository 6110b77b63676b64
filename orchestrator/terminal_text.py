"""Command line parsing whose messages are safe to print."""

from __future__ import annotations

import argparse
from typing import NoReturn

from tasks.escape import escape_control, quote

__all__ = ["EscapingParser", "escape_control", "quote"]


class EscapingParser(argparse.ArgumentParser):
    """An `ArgumentParser` whose error messages are safe to print."""

    def error(self, message: str) -> NoReturn:
        super().error(escape_control(message, keep_lines=True))
