"""SIGTERM as an exception, and no interruption while a farm is stopped."""

from __future__ import annotations

import signal
from types import FrameType


class Terminated(BaseException):
    """SIGTERM; handled like Ctrl+C."""


def raise_on_sigterm() -> None:
    """From now on SIGTERM raises `Terminated` in the main thread."""

    def handle(number: int, frame: FrameType | None) -> None:
        raise Terminated

    signal.signal(signal.SIGTERM, handle)


def ignore_signals() -> None:
    """From now on neither Ctrl+C nor SIGTERM interrupts this process, so that a farm is stopped completely."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
