"""How well one gpu worker fills its server where most answers are short and a few are long.

A real broker, a real gpu worker with its answer tasks, and a simulated server (`simulated_target.py`).  The same
individuals are answered three times:

- direct: all requests through one client, so many in flight as 16 individuals have questions.
- slots: 16 individuals at once, each until its longest answer has ended.
- queue: as many individuals as fill the same number of requests in flight.

The ratio is direct seconds divided by the worker's.
`python benchmarks/full_card.py [--individuals 128] [--questions 25] [--slots 16] [--token-s 0.025]`
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from figures import table, write
from simulated_target import Simulation, serve

from benchmarks.gpu import common
from benchmarks.gpu.direct import requests_of
from orchestrator.farm.producer import make_sender
from tasks.context import content_hash
from tasks.gpu.cluster import pack_labels
from tasks.gpu.prompt import load_tokenizer
from tasks.gpu.target import TargetClient
from tasks.models import Example, Sampling, Target
from tasks.store.keys import CLUSTERING
from tasks.store.store import Store
from workers.embedded.models import embedded_model
from workers.health import worker_answers
from workers.processes.process import ChildProcess, Command, free_port
from workers.queues import worker_command

WANTED = 0.85
CAP = 512
START_S, LIMIT_S = 60.0, 1800.0  # for the simulated server, and for the answers of all individuals


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--individuals", type=int, default=128)
    parser.add_argument("--questions", type=int, default=25)
    parser.add_argument("--slots", type=int, default=16)
    parser.add_argument("--token-s", type=float, default=0.025, help="seconds of a token on the simulated server")
    options = parser.parse_args()
    bound = options.slots * options.questions
    seconds: dict[str, float] = {}
    with (
        tempfile.TemporaryDirectory() as name,
        simulated_server(Simulation(options.token_s, bound)) as url,
        common.open_valkey(Path(name)) as (redis_url, store),
    ):
        seconds["slots"] = on_worker(Path(name), redis_url, store, target_at(url, bound), options, options.slots)
        requests = requests_of(store, str(embedded_model()))
        store.redis.flushall()
        seconds["queue"] = on_worker(Path(name), redis_url, store, target_at(url, bound), options, common.MOST_SLOTS)
        started = time.perf_counter()
        TargetClient(url, 600, bound).generate_many(requests, lambda *_: None)
        seconds["direct"] = time.perf_counter() - started
    ratios = {way: seconds["direct"] / took for way, took in seconds.items()}
    rows = [[way, f"{took:.1f}", f"{ratios[way]:.3f}"] for way, took in seconds.items()]
    print(f"{len(requests)} requests, {bound} in flight, cap {CAP}")
    print(table(["way", "s", "of direct"], rows))
    gain = seconds["slots"] / seconds["queue"]
    print(f"the queue is {gain:.2f} times as fast as slots; {ratios['queue']:.3f} of direct (wanted: {WANTED})")
    write("full_card", {"options": vars(options), "cap": CAP, "seconds": seconds, "ratios": ratios, "gain": gain})
    return 0 if ratios["queue"] >= WANTED else 1


@contextmanager
def simulated_server(simulation: Simulation) -> Iterator[str]:
    port = free_port()
    spawn = multiprocessing.get_context("spawn")
    ready = spawn.Event()
    server = spawn.Process(target=serve, args=(simulation, port, "127.0.0.1", ready), daemon=True)
    server.start()
    try:
        if not ready.wait(START_S):
            sys.exit(f"the simulated server did not start in {START_S:g} s")
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.join()


def target_at(url: str, concurrency: int) -> Target:
    return Target(
        model=str(embedded_model()), engine="sglang", lifecycle="resident", url=url, command="", args="", device="cpu",
        dtype="auto", ready_timeout_s=60, request_timeout_s=600, concurrency=concurrency, system_prompt="",
        prompt_template=common.TEMPLATE, sampling=Sampling(CAP, 0.0, 1.0, 42),
    )  # fmt: skip


def on_worker(
    folder: Path, redis_url: str, store: Store, target: Target, options: argparse.Namespace, slots: int
) -> float:
    """Seconds of a gpu worker with so many slots for all individuals; its start and its first answers do not count."""
    run = dataclasses.replace(common.run_of("card", target, folder), evaluation_cache=True)
    put_run(store, run, options.questions)
    worker = ChildProcess(
        Command("gpu", tuple(worker_command("gpu", "gpu", slots, "WARNING")), folder / "gpu.log", dict(os.environ))
    )
    worker.start()
    try:
        worker.wait_ready(lambda: worker_answers(redis_url, "gpu"), 60)
        app = make_sender(redis_url)
        common.evaluate(app, store, run.id, common.population("g0_pop", 1, 1), LIMIT_S)
        seconds, _ = common.evaluate(app, store, run.id, common.population("g1_pop", options.individuals, 2), LIMIT_S)
        return seconds
    finally:
        worker.stop(10)


def put_run(store: Store, run: common.Run, questions: int) -> None:
    labels = np.arange(len(load_tokenizer(str(embedded_model())))) % common.CLUSTERS
    clustering = content_hash(labels.tolist())[:32]
    described = [{"id": k, "description": f"cluster {k}"} for k in range(common.CLUSTERS)]
    store.put_run(run)
    examples = [Example(str(n), f"text {n} " * 40, f"What is number {n}?", "") for n in range(questions)]
    store.put_examples(run.id, {"training": examples, "validation": []})
    store.clusterings.put(run.id, clustering, pack_labels(labels.astype(np.uint8)), json.dumps(described))
    store.put_metadata(run.id, CLUSTERING, clustering)


if __name__ == "__main__":
    sys.exit(main())
