"""The lock of an output folder: one process at a time works in it, and says who it is."""

from __future__ import annotations

import datetime
import fcntl
import os
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from tasks.common.files import FileTooLarge, open_regular, read_limited
from tasks.common.text import escape_control

LOCK = ".lock"
LOCK_WAIT_S = 0.5  # longer than `orchestrator status` holds the lock of a run
LONGEST_HOLDER = 1000  # bytes


def lock_folder(folder: Path) -> BinaryIO | None:
    """The folder's lock, held, with a line that says by which process; None when the folder was moved meanwhile."""
    path = folder / LOCK
    lock = open_regular(path, os.O_RDWR | os.O_CREAT)
    try:
        _hold(lock)
        if not path.exists() or not os.path.samestat(os.fstat(lock.fileno()), path.stat()):
            lock.close()
            return None
        with suppress(OSError):  # a full disk; without a buffer, which would be written again when the file is closed
            now = datetime.datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
            os.truncate(lock.fileno(), 0)
            os.write(lock.fileno(), f"process {os.getpid()} on host {socket.gethostname()} (since {now})\n".encode())
    except BaseException:
        lock.close()
        raise
    return lock


def holder_of(folder: Path) -> str:
    """Which process holds the folder's lock, as it has written there."""
    with suppress(OSError, FileTooLarge):
        if text := read_limited(folder / LOCK, LONGEST_HOLDER).decode(errors="replace").strip():
            return escape_control(text)
    return "another process"


def _hold(lock: BinaryIO) -> None:
    until = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > until:
                raise
            time.sleep(LOCK_WAIT_S / 20)  # flock waits for ever or not at all
