"""Which view of a run is opened: the live one of a terminal, or plain lines."""

from __future__ import annotations

import os
from typing import Literal, TextIO

from orchestrator.report.plain import PlainView
from orchestrator.report.view import View


def open_view(stream: TextIO, force: Literal["terminal", "plain"] | None = None) -> View:
    """The live view when `stream` is a terminal that can move its cursor, plain lines otherwise.

    `force` overrides this choice.
    """
    can_move = stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb")
    if force == "terminal" or (force is None and can_move):
        from orchestrator.report.terminal import TerminalView

        return TerminalView(stream)
    return PlainView(stream)
