"""Fixtures of the end-to-end tests: an empty workplace, and one in which a run has ended undisturbed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
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
