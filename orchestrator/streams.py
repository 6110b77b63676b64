"""Standard output and standard error that may be lost: their reader ends, their disk is full, their terminal hangs up.

A write that fails raises nothing, so that no work is aborted for what is only printed.  What is written to that stream
from then on is discarded, and the failure is kept for the end of the command.
"""

from __future__ import annotations

import errno
import io
import os
import select
import sys
from typing import Any

READER_GONE = (errno.EPIPE, errno.EIO, errno.ECONNRESET)
"""The other end of a pipe, a terminal or a socket is closed."""


class LossyFile(io.FileIO):
    """A file descriptor that takes every write; after the first that fails, all are discarded."""

    def __init__(self, descriptor: int, failure: OSError | None = None) -> None:
        super().__init__(descriptor, "wb", closefd=False)
        self._failure = failure
        self.lost: OSError | None = None  # why something was discarded

    def write(self, data: Any) -> int:
        """Returns how many bytes were taken, as if all had been written."""
        while self._failure is None:
            try:
                if (written := super().write(data)) is not None:
                    return written
                select.select([], [self.fileno()], [])  # another process has made the pipe non-blocking
            except OSError as error:
                self._failure = error
        self.lost = self._failure
        return memoryview(data).nbytes


def protect_streams() -> None:
    """Make `sys.stdout` and `sys.stderr` streams that may be lost.  Those that a caller has replaced stay as they are.

    A descriptor that was closed (`>&-`) is opened on the null device, so that no file of the program gets its number.
    """
    closed = _open_closed()
    if sys.stdout is sys.__stdout__:
        sys.stdout = _lossy(sys.__stdout__, 1, is_closed=1 in closed)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _lossy(sys.__stderr__, 2, is_closed=2 in closed)


def _lossy(stream: Any, descriptor: int, *, is_closed: bool) -> io.TextIOWrapper:
    """As `stream`, which is None where the descriptor was closed when Python started."""
    failure = OSError(errno.EBADF, os.strerror(errno.EBADF)) if is_closed else None
    return io.TextIOWrapper(
        io.BufferedWriter(LossyFile(descriptor, failure)),
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


def _open_closed() -> set[int]:
    """The standard descriptors that were closed; each is the null device now."""
    closed = set()
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            # The lowest free number is taken, and those below are open.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
            closed.add(descriptor)
    return closed
