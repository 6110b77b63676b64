"""A farm whose stages are simulated: one for all tests that kill no process of it, and new ones for the others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from farm_bench import Bench
from simulated_run import Driver, finish, signal_key, start_evolve

from tasks.store.store import Store
from workers.queues import MODULES_VARIABLE


@pytest.fixture(scope="session")
def simulated_farm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """A Valkey and a worker for each queue, for all tests that kill none of them."""
    modules = {MODULES_VARIABLE: "simulated_stages", "PYTHONPATH": str(Path(__file__).parents[1])}
    with Bench(tmp_path_factory.mktemp("simulated"), OPENAI_API_KEY="", **modules) as bench:
        for queue in ("gpu", "openai", "cpu"):
            bench.start_worker(queue)
        yield bench


FINISHED = {
    "OPTIMISER": "reflective", "POPULATION_SIZE": "3", "NGEN": "2", "CXPB": "0.6", "MUTPB": "1", "SEED": "7",
    "WHOLE": "y", "MARGIN": "0.45", "TRAINING": "0-3", "VALIDATION": "16-25", "TEST": "30-37",
    "DATA_PATH": "configs/data/sample.jsonl",
}  # fmt: skip


@pytest.fixture(scope="session")
def finished_run(simulated_farm: Bench, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output folder of a finished run with all three sets of questions, to be read and not to be changed."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    prompts = folder.parent / "prompts.yaml"
    prompts.write_text('prompts:\n  - {name: plain, text: ""}\n  - {name: short, text: "Be concise."}\n')
    simulated_farm.empty_store()  # an earlier test has told its answers and its context
    simulated_farm.store.set(signal_key("vary", "answer", "each"), 1)
    finish(start_evolve(simulated_farm.url, folder, {**FINISHED, "PROMPTS_PATH": str(prompts)}))
    simulated_farm.empty_store()  # the farm is shared, and its other tests expect no run of others
    return folder


@pytest.fixture
def driver(simulated_farm: Bench) -> Iterator[Driver]:
    """A driver on an empty store."""
    simulated_farm.empty_store()
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
