"""The figures of the store, and the exporter as a process, which outlives a restart of the broker."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from farm_bench import Bench, until

from orchestrator.settings.kconfig import load_settings
from orchestrator.settings.run import make_run
from tasks.openai.endpoint import Usage
from tasks.openai.limits import RunLimits
from tasks.records import Endpoint
from tasks.store.address import queues_url
from tasks.store.client import connect
from tasks.store.keys import STATUS
from tasks.store.store import Store
from tasks.store.workers import WorkerRegistry
from workers.metrics import FarmCollector

ROOT = Path(__file__).parents[2]


def samples(store: Store, valkey_url: str) -> dict[tuple[str, ...], float]:
    """Each sample under its name and the values of its labels."""
    found = {}
    for metric in FarmCollector(connect(queues_url(valkey_url)), store).collect():
        for sample in metric.samples:
            found[sample.name.removeprefix("whetstone_"), *sample.labels.values()] = sample.value
    return found


def test_queues_workers_and_gpus(store: Store, valkey_url: str) -> None:
    roster, gpu = WorkerRegistry(store.redis), {"index": 0, "name": "H200", "used": 5e9, "total": 14e10}
    target = {"in_flight": 7, "tokens_a_second": 812.5, "gpu": {**gpu, "utilization": 0.75}}
    roster.put("gpu@a", {"worker": "gpu@a", "queue": "gpu", "slots": 4, "tasks": [{}, {}], "target": target}, 60)
    roster.pause("cpu")
    with connect(queues_url(valkey_url)) as broker:
        broker.delete("cpu")
        broker.lpush("cpu", "one", "two")
        found = samples(store, valkey_url)
        broker.delete("cpu")
    assert [found["queue_messages", queue] for queue in ("gpu", "cpu")] == [0, 2]
    assert [found["workers", queue] for queue in ("gpu", "cpu")] == [1, 0]
    assert [found["queue_paused", queue] for queue in ("gpu", "cpu")] == [0, 1]
    assert (found["worker_slots", "gpu"], found["worker_tasks", "gpu"], found["up",]) == (4, 2, 1)
    assert found["target_requests_in_flight", "gpu@a"] == 7
    assert found["gpu_memory_used_bytes", "gpu@a", "0 H200"] == 5e9


def test_a_run_its_money_and_its_tokens(store: Store, valkey_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    store.put_run(make_run(load_settings(Path("configs/embedded.config")), "demo-1"))
    store.set_requirements("demo-1", "", "embedded")
    progress = {"state": "running", "unit": "generations", "done": 3, "total": 8, "figures": {"best": 0.5}}
    store.put_metadata("demo-1", STATUS, json.dumps({**progress, "budget_usd": 5.0, "updated": 1000.0}))
    store.restore_usage("demo-1", {"target": 123})
    budget = RunLimits(store.redis, "demo-1", Endpoint("", "K", 10, 1, 0, 0, 1.0, 0.5, 10.0, 0.0))
    budget.settle(budget.begin(Usage()), "judge-m", Usage(1, 1_000_000, 200_000, 100_000, 50_000))
    budget.settle(budget.begin(Usage(completion=20_000)), "judge-m", None)
    budget.begin(Usage(completion=10_000))
    found = samples(store, valkey_url)
    assert [found["run_state", "demo-1", state] for state in ("running", "parked")] == [1, 0]
    assert [found[name, "demo-1", "generations"] for name in ("run_done", "run_planned")] == [3, 8]
    assert found["run_figure", "demo-1", "best"] == 0.5
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


def test_the_exporter_outlives_a_restart_of_the_broker(bench: Bench) -> None:
    command = [sys.executable, "-m", "workers.metrics", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=bench.environment) as exporter:
        assert exporter.stdout is not None
        address = exporter.stdout.readline().split()[-1]
        assert is_up(address)
        bench.server.stop(2)
        until(lambda: not is_up(address))
        bench.start()
        until(lambda: is_up(address))
        exporter.terminate()


def is_up(address: str) -> bool:
    with urllib.request.urlopen(address, timeout=10) as reply:
        return b"\nwhetstone_up 1.0\n" in reply.read()
