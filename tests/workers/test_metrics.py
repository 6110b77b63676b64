"""The figures of the store, and the exporter as a process, which outlives a restart of the broker."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from farm_bench import Bench, until
from prometheus_client.parser import text_string_to_metric_families

from orchestrator.settings.kconfig import load_settings
from orchestrator.settings.run import make_run
from tasks.openai.endpoint import Usage
from tasks.openai.limits import RunLimits
from tasks.records import Endpoint, Failure
from tasks.store.address import queues_url
from tasks.store.client import NO_WAITING, connect
from tasks.store.keys import JOBS, STATUS
from tasks.store.store import Store
from tasks.store.workers import WorkerRegistry
from workers.metrics import RUN_STATES, FarmCollector

ROOT = Path(__file__).parents[2]
GPU = {"index": 0, "name": "H200", "used": 5 * 10**9, "total": 140 * 10**9, "utilization": 0.75}


@pytest.fixture
def farm(store: Store, valkey_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[FarmCollector]:
    """A store with a run at work, a worker on each queue but one, and messages that wait."""
    monkeypatch.chdir(ROOT)
    run = make_run(load_settings(Path("configs/embedded.config")), "demo-1")
    store.put_run(run)
    store.set_requirements(run.id, "", run.target.model)
    progress = {
        "state": "running",
        "unit": "generations",
        "done": 3,
        "total": 8,
        "budget_usd": 5.0,
        "figures": {"best": 0.5, "mean": 0.25, "best_ever": 0.75, "baseline": None},
    }
    store.put_metadata(run.id, STATUS, json.dumps({**progress, "updated": 1000.0}))
    store.restore_usage(run.id, {"target": 123})
    for _ in range(2):  # the task of the first one fails once the second one has begun
        store.begin_attempt(run.id, JOBS, lambda failures: [])
    for attempt in (1, 2):
        store.put_failure(Failure(run.id, JOBS, f"key{attempt}", "n", "judge", "error", "id", 1, 0.0, attempt))
    budget = RunLimits(store.redis, run.id, Endpoint("", "K", 10, 1, 0, 0, 1.0, 0.5, 10.0, 0.0))
    budget.settle(budget.begin(Usage()), "judge-m", Usage(1, 1_000_000, 200_000, 100_000, 50_000))
    budget.settle(budget.begin(Usage(completion=20_000)), "judge-m", None)
    budget.begin(Usage(completion=10_000))
    roster = WorkerRegistry(store.redis)
    target = {"in_flight": 7, "tokens_a_second": 812.5, "gpu": GPU}
    for queue, name, more in (("gpu", "gpu@a", {"target": target}), ("openai", "openai@a", {})):
        roster.put(name, {"worker": name, "queue": queue, "slots": 4, "tasks": [{}, {}], **more}, 60)
    roster.pause("cpu")
    broker = connect(queues_url(valkey_url))
    broker.flushdb()
    broker.lpush("cpu", "one", "two")
    yield FarmCollector(broker, store)
    broker.flushdb()


def samples(farm: FarmCollector) -> dict[tuple[str, ...], float]:
    """Each sample under its name and the values of its labels."""
    found = {}
    for metric in farm.collect():
        for sample in metric.samples:
            found[sample.name.removeprefix("whetstone_"), *sample.labels.values()] = sample.value
    return found


def test_queues_workers_and_gpus(farm: FarmCollector) -> None:
    found = samples(farm)
    assert [found["queue_messages", queue] for queue in ("gpu", "openai", "cpu")] == [0, 0, 2]
    assert [found["workers", queue] for queue in ("gpu", "openai", "cpu")] == [1, 1, 0]
    assert [found["queue_paused", queue] for queue in ("gpu", "cpu")] == [0, 1]
    assert (found["worker_slots", "gpu"], found["worker_tasks", "gpu"], found["up",]) == (4, 2, 1)
    assert found["target_requests_in_flight", "gpu@a"] == 7
    assert found["target_tokens_per_second", "gpu@a"] == 812.5
    assert found["gpu_memory_used_bytes", "gpu@a", "0 H200"] == 5e9
    assert found["gpu_memory_bytes", "gpu@a", "0 H200"] == 140e9
    assert found["gpu_utilization_ratio", "gpu@a", "0 H200"] == 0.75


def test_a_run_its_money_and_its_tokens(farm: FarmCollector) -> None:
    found = samples(farm)
    states = {state: found["run_state", "demo-1", state] for state in RUN_STATES}
    assert states == {"running": 1, "finished": 0, "parked": 0, "stopped": 0}
    assert [found[name, "demo-1", "generations"] for name in ("run_done", "run_planned")] == [3, 8]
    assert found["run_failed_tasks", "demo-1"] == 1
    assert [found["run_figure", "demo-1", of] for of in ("best", "mean", "best_ever")] == [0.5, 0.25, 0.75]
    assert found["cost_usd_total", "demo-1"] == pytest.approx(0.8 + 0.2 * 0.5 + 1.0)
    assert found["cost_unconfirmed_usd", "demo-1"] == pytest.approx(0.2)
    assert found["cost_in_flight_usd", "demo-1"] == pytest.approx(0.1)
    assert (found["budget_usd", "demo-1"], found["calls_total", "demo-1"]) == (5, 3)
    tokens = {key[2:]: value for key, value in found.items() if key[0] == "tokens_total"}
    assert tokens == {
        ("judge-m", "prompt"): 1_000_000,
        ("judge-m", "cached"): 200_000,
        ("judge-m", "completion"): 100_000,
        ("judge-m", "reasoning"): 50_000,
        ("embedded", "generated"): 123,
    }


def test_a_store_that_is_away_is_said_and_not_an_error(tmp_path: Path) -> None:
    away = connect(f"unix://{tmp_path}/nothing.sock", NO_WAITING)
    assert samples(FarmCollector(away, Store(away))) == {("up",): 0}


def test_the_exporter_outlives_a_restart_of_the_broker(bench: Bench) -> None:
    command = [sys.executable, "-m", "workers.metrics", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=bench.environment) as exporter:
        assert exporter.stdout is not None
        address = exporter.stdout.readline().split()[-1]
        found = read(address)
        assert (found["whetstone_up[]"], found["whetstone_workers['gpu']"]) == (1, 0)
        bench.valkey.stop(2)
        until(lambda: read(address)["whetstone_up[]"] == 0)
        bench.start_valkey()
        until(lambda: read(address)["whetstone_up[]"] == 1)
        exporter.terminate()


def read(address: str) -> dict[str, float]:
    with urllib.request.urlopen(address, timeout=10) as reply:
        families = text_string_to_metric_families(reply.read().decode())
    return {f"{s.name}{sorted(s.labels.values())}": s.value for family in families for s in family.samples}
