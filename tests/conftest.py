"""What every test may use: a real Valkey, one for each process of the tests, emptied before each test that uses it.

`-n 2 --dist loadfile` runs files side by side.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest
from farm_bench import RefusingValkey

from tasks.route.grading import Sandbox
from tasks.store.address import store_url
from tasks.store.client import connect
from tasks.store.store import Store
from workers.queues import OPENMP_ENV

os.environ |= OPENMP_ENV | os.environ  # before torch is imported: threads of two processes wait for the same cores

# Where the tests are that take the most time.
LONG_FOLDERS = ("tests/e2e/", "tests/workers/", "tests/tasks/gpu/")


gc.disable()  # what is imported while tests are collected stays until the end: no collector need look at it again


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the long files: with `pytest -n`, the short ones at the end fill the processes evenly."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONG_FOLDERS))


@pytest.fixture(scope="session")
def confinement() -> None:
    """Skips what runs strangers' programs where the kernel cannot confine them (docs/route.md says what it needs)."""
    try:
        Sandbox().check()
    except RuntimeError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def valkey_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The WHETSTONE_REDIS_URL of a server that lives as long as the session."""
    with RefusingValkey(tmp_path_factory.mktemp("valkey")) as server:
        yield server.url


@pytest.fixture(scope="module")
def refusing_valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RefusingValkey]:
    """A server of the test's own, which refuses writes when the test says so."""
    with RefusingValkey(tmp_path_factory.mktemp("refusing")) as server:
        yield server


@pytest.fixture
def store(valkey_url: str) -> Store:
    """An empty store."""
    client = connect(store_url(valkey_url))
    client.flushall()
    return Store(client)
