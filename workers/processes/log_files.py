"""Limits the size of log files that other processes write.

A process writes its log through the descriptor that it was started with, so its file cannot be replaced.  It is copied
and then emptied, as `logrotate` does with `copytruncate`; a line that is written between the two is lost.  The writers
have opened the file for appending, so they continue at its new end.
"""

from __future__ import annotations

import logging
import os
import shutil
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

log = logging.getLogger(__name__)

LOG_BYTES = 10 * 2**20
CHECK_S = 2.0


def rotate_logs(paths: Iterable[Path], limit: int = LOG_BYTES) -> None:
    """Empty each log of more than `limit` bytes; its text goes to NAME.1.  One that cannot be copied stays."""
    for path in paths:
        try:
            if path.exists() and path.stat().st_size > limit:
                shutil.copy(path, path.with_name(f"{path.name}.1"))
                os.truncate(path, 0)
        except OSError as error:
            log.warning("%s has reached its limit of %d bytes and cannot be rotated: %s", path, limit, error)


class LogRotation:
    """Rotates logs in a thread, until `stop`.  `paths` returns those that exist now or later."""

    def __init__(self, paths: Callable[[], Iterable[Path]], limit: int = LOG_BYTES, every_s: float = CHECK_S) -> None:
        self._paths, self._limit, self._every_s = paths, limit, every_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="log rotation")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(self._every_s):
            rotate_logs(self._paths(), self._limit)
