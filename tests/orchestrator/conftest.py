"""A farm whose stages are simulated: one for all tests that kill no process of it, and new ones for the others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from farm_bench import Bench
from simulated_run import Driver

from tasks.store.store import Store
from workers.queues import MODULES_VARIABLE


@pytest.fixture(scope="session")
def simulated_farm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """A Valkey and a worker for each queue, for all tests that kill none of them."""
    bench = simulated_bench(tmp_path_factory.mktemp("simulated"))
    try:
        bench.start_valkey()
        for queue in ("gpu", "openai", "cpu"):
            bench.start_worker(queue)
        yield bench
    finally:
        bench.close()


@pytest.fixture
def own_farm(tmp_path: Path) -> Iterator[Bench]:
    """A new farm with a running Valkey and no worker, for one test."""
    bench = simulated_bench(tmp_path)
    try:
        bench.start_valkey()
        yield bench
    finally:
        bench.close()


def simulated_bench(folder: Path) -> Bench:
    here = {"OPENAI_API_KEY": "", MODULES_VARIABLE: "simulated_stages", "PYTHONPATH": str(Path(__file__).parents[1])}
    return Bench(folder, **here)


@pytest.fixture
def driver(simulated_farm: Bench) -> Iterator[Driver]:
    """A driver on an empty store."""
    if keys := [key for key in simulated_farm.store.scan_iter() if ":worker" not in key]:
        simulated_farm.store.delete(*keys)
    driver = Driver(simulated_farm.url)
    yield driver
    driver.close()


@pytest.fixture
def alone(valkey_url: str, store: Store) -> Iterator[Driver]:
    """A driver on an empty store, whose farm has no worker: nothing works on it but the test."""
    driver = Driver(valkey_url)
    driver.broker.flushdb()
    yield driver
    driver.close()
