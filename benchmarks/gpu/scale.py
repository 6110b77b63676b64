"""Several GPUs: one gpu worker for each GPU on one Valkey, evaluations a minute against a single worker.

Real workers consume one queue and answer with servers of their own.  One worker and all workers are measured with an
equal number of individuals for each GPU, after each worker has started its server and cached the prompts.
`python benchmarks/gpu/scale.py --model FOLDER --data FILE --folder WORK --gpus 4 [--population 32] [--slots 8]`
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from benchmarks.gpu import common
from tasks.store.registry import WorkerRegistry
from tasks.store.store import Store
from workers.app import create_app
from workers.embedded.farm import FARM_VARIABLE
from workers.health import worker_answers
from workers.processes.process import ChildProcess, Command
from workers.queues import worker_command, worker_environment
from workers.sglang.gpus import GPU_VARIABLE

WANTED = 0.9
STARTED_S = 60.0


def worker(folder: Path, url: str, number: int, slots: int) -> ChildProcess:
    """A gpu worker on one GPU."""
    name = f"gpu{number}"
    environment = {**os.environ, **worker_environment("gpu"), FARM_VARIABLE: str(folder), GPU_VARIABLE: str(number)}
    command = Command(name, tuple(worker_command("gpu", name, slots)), folder / "logs" / f"{name}.log", environment)
    process = ChildProcess(command)
    process.start()
    process.wait_ready(lambda: worker_answers(url, name), STARTED_S)
    return process


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    common.add_options(parser)
    parser.add_argument("--gpus", type=int, required=True)
    parser.add_argument("--population", type=int, default=32, help="individuals a GPU")
    parser.add_argument("--slots", type=int, default=8)
    parser.add_argument("--concurrency", type=int, default=1024, help="requests in flight on a GPU")
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    options.folder = common.fresh(options.folder)
    with common.open_valkey(options.folder) as (url, store):
        return measure(url, store, options)


def measure(url: str, store: Store, options: argparse.Namespace) -> int:
    app = create_app(dict(os.environ))
    run = common.run_of("scale", common.target_of(options, options.concurrency), options.folder)
    common.put_run(store, run, common.model_folder(options), options.data, options.rows)
    workers: list[ChildProcess] = []
    found: dict[int, list[tuple[float, int]]] = {}
    try:
        for number in sorted({1, options.gpus}):
            while len(workers) < number:
                workers.append(worker(options.folder, url, len(workers), options.slots))
            # So many at once that no worker can take all of them before the others take theirs.
            warm = common.population(f"g{1000 + number}_pop", 2 * number * options.slots, 1000 + number)
            seconds, _ = common.evaluate(app, store, run.id, warm, 550)
            print(f"{number} workers are warm after {seconds:.1f} s", flush=True)
            found[number] = []
            for n in range(options.rounds):
                plan = common.population(f"g{100 * number + n}_pop", number * options.population, 10 * number + n)
                found[number].append(common.evaluate(app, store, run.id, plan, 550))
                print(f"{number} workers: {found[number][-1]}", flush=True)
        version = reported_version(store)
    finally:
        for process in workers:
            process.ask_to_stop()
        for process in workers:
            process.wait_end(15)
            process.stop(0)
    return report(options, version, found)


def reported_version(store: Store) -> str:
    """The version of the servers, from the workers' reports."""
    found = [worker["target"] for worker in WorkerRegistry(store.redis).workers() if worker.get("target")]
    return ", ".join(sorted({target["version"] or target["engine"] for target in found if "version" in target}))


def report(options: argparse.Namespace, version: str, found: dict[int, list[tuple[float, int]]]) -> int:
    rate, tokens = {}, {}
    for number, rounds in found.items():
        total = sum(seconds for seconds, _ in rounds)
        rate[number] = 60 * number * options.population * len(rounds) / total
        tokens[number] = sum(count for _, count in rounds) / total
    linear = {number: rate[number] / (number * rate[1]) for number in rate}
    rows = [[str(n), f"{rate[n]:.1f}", f"{tokens[n]:.0f}", f"{linear[n]:.3f}"] for n in rate]
    print(common.table(["gpus", "evaluations a minute", "tokens a second", "of linear"], rows))
    print(f"wanted: at least {WANTED:g} of linear; {options.population} individuals a GPU, {options.slots} slots")
    common.write(
        "scale", options, version,
        population_a_gpu=options.population, slots=options.slots, concurrency=options.concurrency,
        rounds={str(n): rounds for n, rounds in found.items()}, evaluations_a_minute=rate, of_linear=linear,
        wanted=WANTED,
    )  # fmt: skip
    return 0 if linear[max(linear)] >= WANTED else 1


if __name__ == "__main__":
    sys.exit(main())
