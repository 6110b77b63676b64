"""A real Prometheus scrapes the exporter of a farm at work: it answers each query of the dashboard, and alerts."""

from __future__ import annotations

import json
import math
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from run_folder import ROOT, RunFolder, environment, orchestrator, wait_until

from tasks.store.address import ENVIRONMENT_VARIABLE, store_url
from tasks.store.client import connect
from tasks.store.registry import WorkerRegistry

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(shutil.which("prometheus") is None, reason="Debian's package prometheus is not installed"),
]
DASHBOARD = json.loads((ROOT / "ops" / "grafana" / "dashboards" / "whetstone.json").read_text())
# Calls of the reflector: one whose outcome stays unknown, and one that fails for good.
FAULTS = "mutation:hang:20:1,mutation:quota:1"
PRICES = {"OPENAI_PRICES": "100 50 5", "BUDGET_USD": "9"}
# What a farm on a CPU does not export: a report as that of a worker on a GPU.
GPU = {"index": 0, "name": "H200", "used": 5e9, "total": 140e9, "utilization": 0.75}
ON_A_GPU = {"in_flight": 1, "tokens_a_second": 800.0, "gpu": GPU}
WINDOW = "30s"  # what Grafana computes for $__rate_interval from the time between scrapes; here they come each second


@dataclass(frozen=True)
class Prometheus:
    """Its HTTP API."""

    url: str

    def ask(self, path: str, **parameters: str) -> Any:
        answer = httpx.get(f"{self.url}/api/v1/{path}", params=parameters, timeout=30, trust_env=False).json()
        assert answer["status"] == "success", answer
        return answer["data"]

    def is_up(self) -> bool:
        try:
            return [target["health"] for target in self.ask("targets")["activeTargets"]] == ["up"]
        except (httpx.TransportError, ValueError):
            return False

    def series(self, query: str, since: float) -> list[dict[str, str]]:
        """The labels of the series that answer a query since then with a number at least once."""
        found = self.ask("query_range", query=query, start=str(since), end=str(time.time()), step="1")["result"]
        return [one["metric"] for one in found if any(not math.isnan(float(value)) for _, value in one["values"])]

    def alerts(self) -> dict[str, str]:
        return {alert["labels"]["alertname"]: alert["state"] for alert in self.ask("alerts")["alerts"]}


@pytest.fixture
def farm(run_folder: RunFolder) -> Iterator[str]:
    """The address of a farm that stays up, with a report of a worker on a GPU."""
    where = ("--config", "configs/embedded.config", "--set", f"FARM_DIR={run_folder.farm}")
    up = orchestrator("farm", "up", *where, "--set", f"EMBEDDED_FAULTS={FAULTS}")
    assert up.returncode == 0, up.stdout
    try:
        address = str(json.loads(orchestrator("farm", "status", "--json", *where).stdout)["redis_url"])
        report = {"worker": "gpu@h200", "queue": "gpu", "slots": 1, "tasks": [], "target": ON_A_GPU}
        WorkerRegistry(connect(store_url(address))).put("gpu@h200", report, 900)
        yield address
    finally:
        assert orchestrator("farm", "down", *where).returncode == 0


@pytest.fixture
def prometheus(farm: str, tmp_path: Path) -> Iterator[Prometheus]:
    """A Prometheus with our configuration, but for the address of the exporter and the time between scrapes."""
    exporter = subprocess.Popen(
        [sys.executable, "-m", "workers.metrics", "--port", "0"],
        cwd=ROOT, env={**environment(), ENVIRONMENT_VARIABLE: farm}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert exporter.stdout is not None
    scraped = exporter.stdout.readline().split("//")[-1].split("/")[0]
    folder = ROOT / "ops" / "prometheus"
    config = yaml.safe_load((folder / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["rule_files"] = [str(folder / name) for name in config["rule_files"]]
    config["scrape_configs"][0]["static_configs"] = [{"targets": [scraped]}]
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    options = [f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data"]
    command = ["prometheus", *options, f"--web.listen-address={address}", "--log.level=warn"]
    server = subprocess.Popen(command)
    try:
        started = Prometheus(f"http://{address}")
        wait_until(started.is_up, "a scrape")
        yield started
    finally:
        for process in (server, exporter):
            process.terminate()
            process.wait(30)


def queries() -> Iterator[tuple[str, str, set[str]]]:
    """Each query of the dashboard: its panel, the query as Grafana sends it, and the labels that its legend names."""
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            query = target["expr"].replace("$run", ".*").replace("$__rate_interval", WINDOW)
            assert "$" not in query, f"{panel['title']}: a variable that this test does not know"
            yield panel["title"], query, set(re.findall(r"{{(\w+)}}", target["legendFormat"]))


def test_each_query_of_the_dashboard_is_answered_and_alerts_fire(
    run_folder: RunFolder, prometheus: Prometheus, monkeypatch: pytest.MonkeyPatch
) -> None:
    since = time.time()
    monkeypatch.setenv("WHETSTONE_OPENAI_TIMEOUT_S", "3")
    # when a run parks, since a call of its reflector has failed
    parked = run_folder.run(**PRICES)
    assert parked.returncode == 3, parked.stdout
    # then what is wrong with it is an alert, and no rule has an error
    wait_until(lambda: prometheus.alerts().get("WhetstoneTasksFail") == "firing", "the alert of a failed task")
    wait_until(lambda: "WhetstoneRunHasFailedTasks" in prometheus.alerts(), "the alert of a run with failed tasks")
    assert prometheus.alerts()["WhetstoneRunParked"] in ("pending", "firing")
    rules = [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]
    assert len(rules) == len(yaml.safe_load((ROOT / "ops/prometheus/alerts.yml").read_text())["groups"][0]["rules"])
    assert {rule["health"] for rule in rules} == {"ok"}, rules
    # when it was retried
    done = orchestrator("retry", str(run_folder.output))
    assert done.returncode == 0, done.stdout
    run = json.loads((run_folder.output / "run.json").read_text())["id"]
    wait_until(lambda: prometheus.series(f'whetstone_run_state{{run="{run}",state="finished"}} == 1', since), "its end")
    # then each panel has something to show, with the labels that it shows
    for title, query, shown in queries():
        series = prometheus.series(query, since)
        assert series, f"{title}: {query}"
        assert all(shown <= set(labels) for labels in series), f"{title}: {query}: {series}"
    [variable] = DASHBOARD["templating"]["list"]
    metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]["query"]).groups()  # type: ignore[union-attr]
    assert prometheus.ask(f"label/{label}/values", **{"match[]": metric}) == [run]
