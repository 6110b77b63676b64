"""How a run is watched: one Protocol, and the choice between a terminal and plain lines."""

from __future__ import annotations

import os
from typing import Literal, Protocol, TextIO

from orchestrator.report.plain import PlainView
from orchestrator.report.snapshot import Snapshot


class View(Protocol):
    """Somebody is watching, or a log is written.

    The driver calls `show` after each poll, as often as it likes: a view decides what is worth showing.  `line` is for
    what must not be missed, such as a parked run.  `close` leaves the terminal as it was found, may be called twice,
    and is called on every way out; nothing may be shown after it.  A view is used by one thread.
    """

    def show(self, snapshot: Snapshot) -> None: ...

    def line(self, text: str) -> None: ...

    def close(self) -> None: ...


def open_view(stream: TextIO, force: Literal["terminal", "plain"] | None = None) -> View:
    """The live view when `stream` is a terminal that can move its cursor, plain lines otherwise.

    `force` decides in place of the stream.
    """
    can_move = stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb")
    if force == "terminal" or (force is None and can_move):
        from orchestrator.report.terminal import TerminalView

        return TerminalView(stream)
    return PlainView(stream)
