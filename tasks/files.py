"""Files and folders that appear whole: a reader sees the old content or the new, also after a kill."""

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
    """A file has more bytes than is read of such a file."""


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
