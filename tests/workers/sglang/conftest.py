"""A bench's store, and the target host of a worker."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from farm_bench import Bench
from server_target import own_store

from tasks.store.address import ENVIRONMENT_VARIABLE, store_url
from tasks.store.client import connect
from tasks.store.store import Store
from workers.sglang.host import LocalTargetHost


@pytest.fixture
def store(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """The store of the bench, which the tasks of this process use too."""
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, bench.url)
    with own_store():
        yield Store(connect(store_url(bench.url)))


@pytest.fixture
def host(tmp_path: Path) -> Iterator[LocalTargetHost]:
    host = LocalTargetHost(tmp_path, "gpu", {**os.environ, "PYTHONPATH": ""})
    yield host
    host.close()
