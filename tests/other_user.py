"""Another user of the same machine, for tests that run as root: what it can do, done by a process of its own."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import Pipe, get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

NOBODY = 65534
"localhost".encode("idna")  # loads what the other user may not be able to read
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can act as another user")


def as_another_user(action: Callable[[], Any]) -> Any:
    """What `action` returns in a process of the user `NOBODY`."""
    receiving, sending = Pipe(duplex=False)

    def act() -> None:
        try:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            sending.send((action(), ""))
        except BaseException:
            sending.send((None, traceback.format_exc()))
        os._exit(0)

    process = get_context("fork").Process(target=act)
    process.start()
    returned, raised = receiving.recv()
    process.join()
    assert not raised, raised
    return returned


@contextmanager
def shared_folder() -> Iterator[Path]:
    """A folder that every user may read and write, as /tmp is."""
    with TemporaryDirectory(prefix="shared-") as folder:
        Path(folder).chmod(0o1777)
        yield Path(folder)


def readable_files(folder: Path) -> list[str]:
    """What this user can open or list below `folder`."""
    found = []
    for here, folders, files in os.walk(folder):
        paths = (os.path.join(here, name) for name in (*folders, *files))
        found += [path for path in paths if os.access(path, os.R_OK)]
    return found
