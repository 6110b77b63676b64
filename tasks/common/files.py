"""Files and folders that appear whole, also after a kill; and those that only this user may read.

A program of this project calls `keep_private` before it does anything else; a folder that holds a socket, a lock or a
farm's data goes through `private_folder` before anything in it is touched.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)  # of an OSError: a disk takes no more
_UNFINISHED = ".part"


def write_atomic(path: Path, data: bytes | str) -> None:
    """Replace a file, and make its folder where there is none."""
    with open_atomic(path) as out:
        out.write(data.encode() if isinstance(data, str) else data)


class FileTooLarge(ValueError):
    """More bytes than is read of such a file."""


def open_regular(path: Path, flags: int = os.O_RDONLY) -> BinaryIO:
    """The file, open with these flags of `os.open`; with O_CREAT it is made where there is none."""
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        return os.fdopen(descriptor, "r+b" if flags & os.O_RDWR else "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_limited(path: Path, most: int, *, pipes: bool = False) -> bytes:
    """The content of a regular file of at most so many bytes; with `pipes`, of whatever can be read."""
    with path.open("rb") if pipes else open_regular(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise FileTooLarge(f"it has more than {most:,} bytes, the most that such a file may have")
    return content


@contextmanager
def open_atomic(path: Path) -> Iterator[BinaryIO]:
    """As `write_atomic`, for content that is written piece by piece; after any exception the old content is left."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}{_UNFINISHED}")
    try:
        with temporary.open("wb") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def folder_atomic(path: Path) -> Iterator[Path]:
    """An empty folder to fill, which becomes `path` when the block ends; a folder that is already there stays.

    Its parent must exist.  Of two processes that make the same folder the first one counts.
    """
    work = path.with_name(f".{path.name}.{uuid.uuid4().hex}{_UNFINISHED}")
    work.mkdir()
    try:
        yield work
        for file in work.rglob("*"):
            if file.is_file():
                with file.open("rb") as written:
                    os.fsync(written.fileno())
        try:
            work.rename(path)
        except OSError:
            if not path.is_dir():
                raise
    finally:
        shutil.rmtree(work, ignore_errors=True)


def remove_unfinished(folder: Path, older_than_s: float = 0.0) -> None:
    """Remove the unfinished folders that killed processes left in `folder`."""
    for unfinished in folder.glob(f".*{_UNFINISHED}"):
        if time.time() - unfinished.stat().st_mtime >= older_than_s:
            shutil.rmtree(unfinished, ignore_errors=True)


def model_sha256(folder: Path) -> str:
    """The SHA-256 of a model's files and their names, wherever the folder is; readmes and hidden files do not count."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix != ".md" and not path.name.startswith("."):
            with path.open("rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
            digest.update(f"{path.relative_to(folder).as_posix()}\0{content}\n".encode())
    return digest.hexdigest()


TAKEN = "belongs to another user"
LONGEST_SOCKET_PATH = 106  # bytes
OTHERS = 0o077  # the permissions of the group and of all others


def keep_private() -> None:
    """Have this process and those that it starts create files as 0600 and folders as 0700.

    A folder with a default ACL keeps it: that is how an operator shares outputs with a group.
    """
    os.umask(OTHERS)


def private_folder(path: Path) -> Path:
    """Make a folder that only this user may enter, or check one that is there; a link must be this user's or root's."""
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
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISREG(found.st_mode) or stat.S_IMODE(found.st_mode) & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(errno.EPERM, "it is no file that only this user may write", str(path))
    _check_owner(path, found)


def runtime_folder() -> Path:
    """The folder for this user's sockets and locks, the same for all processes of the user that share a TMPDIR.

    Not XDG_RUNTIME_DIR: that is removed when the user logs out, and a farm may stay up.
    """
    return private_folder(runtime_path())


def runtime_path() -> Path:
    import tempfile  # here, because it takes a tenth of the time of `orchestrator --help`

    return Path(tempfile.gettempdir()) / f"whetstone-{os.getuid()}"


def runtime_socket(name: str) -> Path:
    """The path of a socket in `runtime_folder`.  Creates nothing."""
    path = runtime_path() / f"{name}.sock"
    if len(os.fsencode(path)) > LONGEST_SOCKET_PATH:
        raise OSError(errno.ENAMETOOLONG, "the path of a socket is too long; set TMPDIR to a shorter folder", str(path))
    return path


UNIX = "unix"  # the scheme of a server's base URL that is the path of a socket: unix:/run/target.sock


def unix_url(path: Path) -> str:
    """The base URL of the server that listens on the socket `path`."""
    return f"{UNIX}:{path}"


def unix_path(url: str) -> str | None:
    """The path of the Unix socket that a base URL names; None for a URL of a port."""
    scheme, _, path = url.partition(":")
    return path if scheme == UNIX else None


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
