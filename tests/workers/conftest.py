"""A bench with a Valkey and workers, for the tests of all folders below."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from farm_bench import MODULES_FOLDER, VISIBILITY_S, Bench

from workers.queues import MODULES_VARIABLE


@pytest.fixture
def module_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers import farm_tasks.py in place of the project's tasks."""
    monkeypatch.setenv(MODULES_VARIABLE, "farm_tasks")
    monkeypatch.setenv("PYTHONPATH", str(MODULES_FOLDER))


@pytest.fixture
def bench(tmp_path: Path, module_environment: None, request: pytest.FixtureRequest) -> Iterator[Bench]:
    """A bench with a running Valkey; its visibility timeout is VISIBILITY_S, or the indirect parameter."""
    with Bench(tmp_path, getattr(request, "param", VISIBILITY_S)) as bench:
        yield bench
