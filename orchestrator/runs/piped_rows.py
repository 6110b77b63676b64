"""Rows to judge that come through a pipe: they are read twice, so they are copied first."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tasks import limits
from tasks.dataset import DatasetError


@contextmanager
def regular_file(path: Path) -> Iterator[Path]:
    """The file itself, or a copy of what can be read only once, such as a pipe.

    Raises: DatasetError for more than `PIPED_ROWS_BYTES` through a pipe.
    """
    if path.is_file() or not path.exists() or path.is_dir():
        yield path
        return
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as copy, path.open("rb") as once:
        copied = 0
        while part := once.read(limits.MIB):
            copied += len(part)
            if copied > limits.PIPED_ROWS_BYTES:
                raise DatasetError(
                    f"{path}: more than {limits.PIPED_ROWS_BYTES:,} bytes; judge a file, or fewer rows at a time"
                )
            copy.write(part)
        copy.flush()
        yield Path(copy.name)
