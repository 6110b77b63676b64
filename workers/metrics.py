"""`python -m workers.metrics [--host HOST] [--port PORT]`: the farm's numbers at http://HOST:PORT/metrics.

For Prometheus; no worker needs an open port.  At each scrape it says what the store holds: queues, workers, GPUs, runs
and cost, with a bound on the number of workers and runs.  It needs the address of the broker (WHETSTONE_REDIS_URL).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import redis
from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tasks.common.files import keep_private
from tasks.common.logs import redacted
from tasks.openai.limits import TOKENS, spending_of
from tasks.queues import QUEUES
from tasks.store.address import queues_url, redis_url_of, store_url
from tasks.store.client import NO_WAITING, connect
from tasks.store.keys import MODEL, STATUS
from tasks.store.store import Store
from tasks.store.workers import WorkerRegistry

PORT, TIMEOUT_S = 9100, 2.0  # a scrape waits so long for a server that does not answer
WORKERS = 200  # at most, by name
RUNS = 20  # at most: those with the latest status
RUN_STATES = ("running", "finished", "parked", "stopped")

COUNTERS = ("cost_usd", "calls", "tokens")  # the other metrics of a scrape are gauges
ABOUT = {
    "up": "1 while the Redis or Valkey of the farm answers.",
    "queue_messages": "Messages that wait for a worker.",
    "queue_paused": "1 while the queue is paused.",
    "unacked_messages": "Messages of all queues that workers have taken and not finished.",
    "workers": "Workers with a recent heartbeat.",
    "worker_slots": "Tasks that these workers can execute at once.",
    "worker_tasks": "Tasks that these workers are executing.",
    "target_requests_in_flight": "Requests that the worker has with its target server.",
    "target_tokens_per_second": "Tokens that it generates, over the last seconds.",
    "gpu_memory_used_bytes": "Memory in use on the worker's GPU, by all processes.",
    "gpu_memory_bytes": "Memory of the worker's GPU.",
    "gpu_utilization_ratio": "Share of the last moment in which the GPU computed.",
    "run_state": "1 for the state that the run is in.",
    "run_done": "Generations, examples or other units that are done.",
    "run_planned": "Units that the run is to do.",
    "run_failed_tasks": "Tasks of the run that have failed for good and wait for a retry.",
    "run_updated_timestamp_seconds": "Seconds since 1970 when the run's driver last published its status.",
    "run_figure": "Figures of the run's kind, as `orchestrator status` shows them.",
    "cost_usd": "US dollars that answered calls cost.",
    "cost_in_flight_usd": "Maximum cost of calls in flight, in US dollars.",
    "cost_unconfirmed_usd": "Maximum cost of calls whose cost is unknown, in US dollars.",
    "budget_usd": "US dollars that the run may spend; 0 is no limit.",
    "calls": "Tries of calls to the endpoint.",
    "tokens": "Tokens by kind; of the endpoint cached is part of prompt, and reasoning of completion.",
}
Sample = tuple[str, Mapping[str, str], float]
"""The name of a metric of `ABOUT`, labels, and the value."""


@dataclass(eq=False)
class FarmCollector(Collector):
    broker: redis.Redis  # of the queues
    store: Store

    def collect(self) -> Iterator[Metric]:
        try:
            found = [*_queues(self.broker, self.store), *_workers(self.store), *_runs(self.store), ("up", {}, 1)]
        except redis.RedisError:
            found = [("up", {}, 0)]
        families: dict[str, Any] = {}
        for name, labels, value in found:
            if name not in families:
                kind: Any = CounterMetricFamily if name in COUNTERS else GaugeMetricFamily
                families[name] = kind(f"whetstone_{name}", ABOUT[name], labels=list(labels))
            families[name].add_metric(list(labels.values()), value)
        yield from families.values()


def _queues(broker: redis.Redis, store: Store) -> Iterator[Sample]:
    paused = WorkerRegistry(store.redis).paused()
    for name in QUEUES:
        yield "queue_messages", {"queue": name}, broker.llen(name)
        yield "queue_paused", {"queue": name}, name in paused
    yield "unacked_messages", {}, broker.hlen("unacked")


def _workers(store: Store) -> Iterator[Sample]:
    reports = WorkerRegistry(store.redis).workers()[:WORKERS]
    for queue in QUEUES:
        here = [report for report in reports if report["queue"] == queue]
        yield "workers", {"queue": queue}, len(here)
        yield "worker_slots", {"queue": queue}, sum(report["slots"] for report in here)
        yield "worker_tasks", {"queue": queue}, sum(len(report["tasks"]) for report in here)
    for report in reports:
        labels, target = {"worker": str(report["worker"])}, report.get("target") or {}
        gpu: Mapping[str, Any] = target.get("gpu") or {}
        of_gpu = {**labels, "gpu": f"{gpu.get('index', '')} {gpu.get('name', '')}".strip()}
        for name, where, value in (
            ("target_requests_in_flight", labels, target.get("in_flight")),
            ("target_tokens_per_second", labels, target.get("tokens_a_second")),
            ("gpu_memory_used_bytes", of_gpu, gpu.get("used")),
            ("gpu_memory_bytes", of_gpu, gpu.get("total")),
            ("gpu_utilization_ratio", of_gpu, gpu.get("utilization")),
        ):
            if value is not None:
                yield name, where, value


def _runs(store: Store) -> Iterator[Sample]:
    texts = {run: store.metadata(run, STATUS) for run in store.run_ids()}
    statuses = {run: json.loads(text) for run, text in texts.items() if text}
    for run in sorted(statuses, key=lambda run: statuses[run].get("updated", 0.0), reverse=True)[:RUNS]:
        status, labels = statuses[run], {"run": run}
        for state in RUN_STATES:
            yield "run_state", {**labels, "state": state}, status.get("state") == state
        unit = {**labels, "unit": str(status.get("unit", ""))}
        yield "run_done", unit, status.get("done", 0)
        yield "run_planned", unit, status.get("total", 0)
        yield "run_failed_tasks", labels, len(store.failed_tasks(run))
        yield "run_updated_timestamp_seconds", labels, status.get("updated", 0.0)
        for name, value in status.get("figures", {}).items():
            if value is not None:
                yield "run_figure", {**labels, "figure": name}, value
        usage, spending = store.usage(run), spending_of(store.redis, run)
        if status.get("is_priced", True):
            yield "cost_usd", labels, spending.spent
        yield "cost_in_flight_usd", labels, spending.in_flight
        yield "cost_unconfirmed_usd", labels, spending.unconfirmed
        yield "budget_usd", labels, status.get("budget_usd", 0.0)
        yield "calls", labels, usage.get("requests", 0.0)
        for name, count in sorted(usage.items()):
            kind, at, model = name.partition("@")
            if at and kind in TOKENS:
                yield "tokens", {**labels, "model": model, "kind": kind}, count
        generated = {**labels, "model": store.metadata(run, MODEL) or "", "kind": "generated"}
        yield "tokens", generated, usage.get("target", 0.0)


def main() -> None:
    keep_private()
    parser = argparse.ArgumentParser(prog="python -m workers.metrics", description="The farm's numbers for Prometheus.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1; 0.0.0.0 in a container)")
    parser.add_argument("--port", type=int, default=PORT, help=f"port ({PORT}; 0 takes a free one)")
    options = parser.parse_args()
    try:
        url = redis_url_of(os.environ)
        broker, store = (
            connect(address, NO_WAITING, timeout_s=TIMEOUT_S) for address in (queues_url(url), store_url(url))
        )
        registry = CollectorRegistry(auto_describe=False)
        registry.register(FarmCollector(broker, Store(store)))
        server, thread = start_http_server(options.port, options.host, registry)
    except (ValueError, OSError) as error:
        sys.exit(f"workers.metrics: {error}")
    print(f"metrics of {redacted(url)} at http://{options.host}:{server.server_port}/metrics", flush=True)
    try:
        thread.join()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
