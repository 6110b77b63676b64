"""Fixtures of the end-to-end tests: an empty folder for a run, and finished runs to compare with."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from collection_folder import CollectionFolder
from filelock import FileLock
from guide_folder import GuideFolder
from rules_server import RulesServer, rules_server
from run_folder import LOGS, RunFolder

TIMEOUT_S = 900  # of a test with whole runs, on a busy machine; also the first that waits for the reference run


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the tests of this folder a longer timeout, where they have none."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent) and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))


@pytest.fixture
def run_folder(tmp_path: Path) -> Iterator[RunFolder]:
    folder = RunFolder(tmp_path)
    yield folder
    folder.clear()


@pytest.fixture
def rules(tmp_path: Path) -> Iterator[RulesServer]:
    """An endpoint of the test's own that answers by rules, with faults on request."""
    with rules_server(tmp_path / LOGS[1]) as server:
        yield server


@pytest.fixture
def collection(tmp_path: Path) -> Iterator[CollectionFolder]:
    folder = CollectionFolder(tmp_path)
    folder.configure()
    yield folder
    folder.clear()


def reference(kind: type[RunFolder]) -> Any:
    """A finished run of a kind without any fault: the tests compare others with it."""

    @pytest.fixture(scope="session")
    def made(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
        def run(folder: Path) -> None:
            finished = kind(folder)
            finished.configure()
            done = finished.run(timeout=600)
            assert done.returncode == 0, done.stdout
            assert finished.processes() == []

        return kind(create_once(tmp_path_factory, f"reference_{kind.__name__}", run))

    return made


reference_run, reference_collection, reference_guide = map(reference, (RunFolder, CollectionFolder, GuideFolder))


def create_once(factory: pytest.TempPathFactory, name: str, fill: Callable[[Path], None]) -> Path:
    """The folder `name`, filled by `fill` once for all processes of `pytest -n`: the first fills it, the others wait.

    Raises: what `fill` raises; then the next process tries again.
    """
    root = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent
    folder, done = root / name, root / f"{name}.done"
    with FileLock(root / f"{name}.lock"):
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            fill(folder)
            done.touch()
    return folder
