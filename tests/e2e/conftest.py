"""Fixtures of the end-to-end tests: an empty folder for a run, and finished runs to compare with."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from rules_server import RulesServer, rules_server
from run_folder import LOGS, CollectionFolder, GuideFolder, RunFolder

TIMEOUT_S = 1800  # of a test with whole runs, on a busy machine; also the first that waits for the reference run


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


def reference(kind: type[RunFolder]) -> Any:
    """A finished run of a kind without any fault: the tests compare others with it.

    The first process of `pytest -n` that needs it makes it; the others wait.
    """

    @pytest.fixture(scope="session")
    def made(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
        root = tmp_path_factory.getbasetemp()
        if "PYTEST_XDIST_WORKER" in os.environ:
            root = root.parent
        folder, done = root / kind.__name__, root / f"{kind.__name__}.done"
        finished = kind(folder)
        with FileLock(root / f"{kind.__name__}.lock"):
            if not done.exists():
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                finished.configure()
                ended = finished.run()
                assert ended.returncode == 0, ended.stdout
                assert finished.processes() == []
                done.touch()
        return finished

    return made


reference_run, reference_collection, reference_guide = map(reference, (RunFolder, CollectionFolder, GuideFolder))
