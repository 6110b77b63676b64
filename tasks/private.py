"""Files and folders that only this user may read, on a machine that other users share.

Prompts, answers, keys and sockets are in them.  A program of this project calls `keep_private` before it does anything
else; a folder that holds a socket, a lock or a farm's data goes through `private_folder` before anything in it is
touched.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

TAKEN = "belongs to another user"
LONGEST_SOCKET_PATH = 106  # bytes
OTHERS = 0o077  # the permissions of the group and of all others


def keep_private() -> None:
    """Have this process and those that it starts create files as 0600 and folders as 0700.

    A folder with a default ACL keeps it: that is how an operator shares outputs with a group.
    """
    os.umask(OTHERS)


def private_folder(path: Path) -> Path:
    """Make a folder that only this user may enter, with its parents, or check one that is there; returns it.

    A symbolic link is followed only if this user or root made it.
    """
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    _check_owner(path, path.lstat())
    descriptor = os.open(path.resolve(), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        _check_owner(path, found)
        if found.st_uid == os.getuid() and stat.S_IMODE(found.st_mode) & OTHERS:
            os.fchmod(descriptor, stat.S_IMODE(found.st_mode) & ~OTHERS)
    finally:
        os.close(descriptor)
    return path


def check_own_file(path: Path) -> None:
    """Nothing where there is no file."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISREG(found.st_mode) or stat.S_IMODE(found.st_mode) & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(errno.EPERM, "it is no file that only this user may write", str(path))
    _check_owner(path, found)


def runtime_folder() -> Path:
    """The folder for this user's sockets and locks, the same for all processes of the user that share a TMPDIR.

    Not XDG_RUNTIME_DIR: that is removed when the user logs out, and a farm may stay up.  In a TMPDIR that all users may
    write to and that lacks the sticky bit, they could rename the folder; /tmp has that bit.
    """
    return private_folder(runtime_path())


def runtime_path() -> Path:
    """The path of `runtime_folder`, which need not exist."""
    import tempfile  # here, because it takes a tenth of the time of `orchestrator --help`

    return Path(tempfile.gettempdir()) / f"whetstone-{os.getuid()}"


def runtime_socket(name: str) -> Path:
    """The path of a socket in `runtime_folder`.  Creates nothing."""
    path = runtime_path() / f"{name}.sock"
    if len(os.fsencode(path)) > LONGEST_SOCKET_PATH:
        raise OSError(errno.ENAMETOOLONG, "the path of a socket is too long; set TMPDIR to a shorter folder", str(path))
    return path


def is_own_folder(path: Path) -> bool:
    """Whether `path` is a folder, not a link to one, that belongs to this user."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()


def _check_owner(path: Path, found: os.stat_result) -> None:
    if found.st_uid not in (os.getuid(), 0):
        raise PermissionError(errno.EPERM, f"{TAKEN}, which must not see or replace what is in it", str(path))
