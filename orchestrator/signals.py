"""Leaving in order: SIGTERM as an exception, and no interruption while a farm is taken down."""

from __future__ import annotations

import signal
from types import FrameType


class Terminated(BaseException):
    """SIGTERM: leave in order, as with Ctrl+C."""


def raise_on_sigterm() -> None:
    """From now on SIGTERM raises `Terminated` in the main thread."""

    def handle(number: int, frame: FrameType | None) -> None:
        raise Terminated

    signal.signal(signal.SIGTERM, handle)


def ignore() -> None:
    """From now on neither Ctrl+C nor SIGTERM stops what is under way: half a farm must not be left behind."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
