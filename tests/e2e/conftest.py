"""Fixtures of the end-to-end tests: an empty workplace, and one in which a run has ended undisturbed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from collecting import Collecting
from filelock import FileLock
from workplace import Workplace


@pytest.fixture
def workplace(tmp_path: Path) -> Iterator[Workplace]:
    place = Workplace(tmp_path)
    yield place
    place.clear()


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    """A run that nothing happened to: what the others are compared with."""

    def run(folder: Path) -> None:
        place = Workplace(folder)
        done = place.run()
        assert done.returncode == 0, done.stdout
        assert place.processes() == []

    return Workplace(made_once(tmp_path_factory, "undisturbed", run))


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Collecting]:
    found = Collecting(tmp_path)
    found.configure()
    yield found
    found.clear()


@pytest.fixture(scope="session")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Collecting:
    """A collection that nothing happened to; its output on the terminal is in said.txt."""

    def run(folder: Path) -> None:
        place = Collecting(folder)
        place.configure()
        done = place.run()
        assert done.returncode == 0, done.stdout
        (folder / "said.txt").write_text(done.stdout)

    return Collecting(made_once(tmp_path_factory, "collected", run))


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """The folder `name`, filled by `make`, once for all processes of `pytest -n`: the first makes it, the others wait.

    Raises: what `make` raises; then the next process tries it anew.
    """
    root = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent
    folder, done = root / name, root / f"{name}.done"
    with FileLock(root / f"{name}.lock"):
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            done.touch()
    return folder
