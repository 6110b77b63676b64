"""Fixtures of the end-to-end tests: an empty workplace, and one in which a run has ended undisturbed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from collecting import Collecting
from workplace import Workplace


@pytest.fixture
def workplace(tmp_path: Path) -> Iterator[Workplace]:
    place = Workplace(tmp_path)
    yield place
    place.clear()


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workplace]:
    """A run that nothing happened to: what the others are held against."""
    place = Workplace(tmp_path_factory.mktemp("undisturbed"))
    done = place.run()
    assert done.returncode == 0, done.stdout
    assert place.processes() == []
    yield place
    place.clear()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Collecting]:
    found = Collecting(tmp_path)
    found.configure()
    yield found
    found.clear()


@pytest.fixture(scope="session")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collecting]:
    """A collection that nothing happened to; what it said is in said.txt."""
    found = Collecting(tmp_path_factory.mktemp("collected"))
    found.configure()
    done = found.run()
    assert done.returncode == 0, done.stdout
    (found.folder / "said.txt").write_text(done.stdout)
    yield found
    found.clear()
