"""Limits the size of log files that other processes write.

A process writes its log through the descriptor that it was started with, so its file cannot be replaced.  It is copied
and then emptied, as `logrotate` does with `copytruncate`; a line that is written between the two is lost.  The writers
have opened the file for appending, so they continue at its new end.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

log = logging.getLogger(__name__)

LOG_BYTES = 10 * 2**20
OLD_FILES = 3
CHECK_S = 2.0


def rotate_logs(paths: Iterable[Path], limit: int = LOG_BYTES, kept: int = OLD_FILES) -> None:
    """Empty each log of more than `limit` bytes; its text goes to NAME.1, that of NAME.1 to NAME.2, up to `kept`.

    A log that cannot be copied, on a full disk for example, is left as it is.
    """
    for path in paths:
        try:
            if path.lstat().st_size > limit:
                _rotate(path, kept)
        except FileNotFoundError:
            continue
        except OSError as error:
            log.warning("%s has reached its limit of %d bytes and cannot be rotated: %s", path, limit, error)


def _rotate(path: Path, kept: int) -> None:
    copy = path.with_name(f"{path.name}.copy")
    copy.unlink(missing_ok=True)
    try:
        with path.open("r+b") as text:
            descriptor = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as target:
                shutil.copyfileobj(text, target)
            text.truncate(0)
    except OSError:
        copy.unlink(missing_ok=True)
        raise
    for number in range(kept, 1, -1):
        with contextlib.suppress(FileNotFoundError):
            path.with_name(f"{path.name}.{number - 1}").replace(path.with_name(f"{path.name}.{number}"))
    copy.replace(path.with_name(f"{path.name}.1"))


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
