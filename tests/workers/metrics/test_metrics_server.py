"""The exporter as a process, beside a real worker: what it serves, and that it outlives a restart of the broker."""

from __future__ import annotations

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
from tasks.records import JobSpec
from tasks.store.address import store_url
from tasks.store.client import connect
from tasks.store.store import Store

KEY = "file:" + "0" * 64
ROOT = Path(__file__).parents[3]


@pytest.fixture
def farm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.chdir(ROOT)  # the paths of the settings begin here
    bench = Bench(tmp_path)
    try:
        bench.start_valkey()
        run = make_run(load_settings(ROOT / "configs" / "embedded.config"), "demo-1")
        Store(connect(store_url(bench.url))).put_run(run)
        bench.start_worker("cpu", 1)
        yield bench
    finally:
        bench.close()


@pytest.fixture
def address(farm: Bench) -> Iterator[str]:
    command = [sys.executable, "-m", "workers.metrics", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=farm.environment) as exporter:
        assert exporter.stdout is not None
        yield exporter.stdout.readline().split()[-1]
        exporter.terminate()


def read(address: str) -> dict[str, float]:
    with urllib.request.urlopen(address, timeout=10) as reply:
        families = text_string_to_metric_families(reply.read().decode())
    return {f"{s.name}{sorted(s.labels.values())}": s.value for family in families for s in family.samples}


def test_it_tells_of_tasks_and_workers_also_after_the_broker_was_away(farm: Bench, address: str) -> None:
    gathered = "whetstone_tasks_total['cpu.gather', 'succeeded']"
    # given an exporter that listens: what is sent is told sooner or later, so more is sent until it is
    until(lambda: farm.app.send_task("cpu.gather", ("demo-1", "g0_pop", 1)) and read(address).get(gathered))
    found = read(address)
    assert found["whetstone_task_seconds_count['cpu.gather']"] == found[gathered]
    assert (found["whetstone_workers['cpu']"], found["whetstone_workers['gpu']"]) == (1, 0)
    # when a task fails, it is counted among the failed
    spec = JobSpec("cpu.plot", "fitness.png", {"name": "fitness.png", "data": "nothing"})
    Store(connect(store_url(farm.url))).put_job("demo-1", KEY, spec)
    farm.app.send_task("cpu.plot", ("demo-1", KEY, 0))
    until(lambda: read(address).get("whetstone_tasks_total['cpu.plot', 'failed']"))
    # when the broker goes away, the exporter says so and stays
    farm.valkey.stop(2)
    until(lambda: read(address) and read(address)["whetstone_up[]"] == 0)
    # and when it is back, so are the figures and the events
    farm.start_valkey()
    before = read(address)[gathered]
    until(lambda: farm.app.send_task("cpu.gather", ("demo-1", "g0_pop", 1)) and read(address)[gathered] > before)
    assert read(address)["whetstone_up[]"] == 1
