"""Standard output and standard error that may be lost: their reader ends, their disk is full, their terminal hangs up.

A write that fails raises nothing, so that no work is aborted for what is only printed.
"""

from __future__ import annotations

import io
import os
import select
import sys
from typing import Any


class LossyFile(io.FileIO):
    """A file descriptor that takes every write; `lost` is why something was discarded."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor, "wb", closefd=False)
        self.lost: OSError | None = None

    def write(self, data: Any) -> int:
        try:
            while (written := super().write(data)) is None:  # another process has made the pipe non-blocking
                select.select([], [self.fileno()], [])
        except OSError as error:
            self.lost = error
            return memoryview(data).nbytes
        return written


def protect_streams() -> None:
    """Make `sys.stdout` and `sys.stderr` streams that may be lost.  Those that a caller has replaced stay as they are.

    A descriptor that was closed (`>&-`) is opened on the null device, so that no file of the program gets its number.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free number is taken
    if sys.stdout is sys.__stdout__:
        sys.stdout = _lossy(sys.__stdout__, 1)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _lossy(sys.__stderr__, 2)


def _lossy(stream: Any, descriptor: int) -> io.TextIOWrapper:
    """As `stream`, which is None where the descriptor was closed when Python started."""
    return io.TextIOWrapper(
        io.BufferedWriter(LossyFile(descriptor)),
        encoding=stream.encoding if stream else "utf-8",
        errors="backslashreplace",  # names of files may have bytes that are not UTF-8
        line_buffering=bool(stream and stream.line_buffering),
        write_through=bool(stream and stream.write_through),
    )


def output_failure() -> OSError | None:
    """Why standard output was lost; None where all of it was written."""
    file = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    if not isinstance(file, LossyFile):
        return None
    sys.stdout.flush()
    return file.lost
