"""Another user of the same machine, for tests that run as root: what it can do, done by a process of its own."""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

NOBODY = 65534
"localhost".encode("idna")  # loads what the other user may not be able to read
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can act as another user")


def as_another_user(action: Callable[[], Any]) -> Any:
    """What `action` returns, as JSON values, in a process of the user `NOBODY`."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            answer = {"returned": action()}
        except BaseException:
            answer = {"raised": traceback.format_exc()}
        with os.fdopen(writing, "w") as out:
            json.dump(answer, out)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer_of_child:
        answer = json.load(answer_of_child)
    os.waitpid(child, 0)
    assert "returned" in answer, answer["raised"]
    return answer["returned"]


@contextmanager
def shared_folder() -> Iterator[Path]:
    """A folder that every user may read and write, as /tmp is."""
    import shutil

    folder = Path(mkdtemp(prefix="shared-"))
    folder.chmod(0o1777)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def readable_files(folder: Path) -> list[str]:
    """What this user can open or list below `folder`."""
    found = []
    for here, folders, files in os.walk(folder):
        found += [os.path.join(here, name) for name in folders if os.access(os.path.join(here, name), os.R_OK)]
        found += [os.path.join(here, name) for name in files if os.access(os.path.join(here, name), os.R_OK)]
    return found
