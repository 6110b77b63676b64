"""Ten thousand tasks through the farm: how fast against bare Celery, how much memory, and what is left in Redis.

Plan after plan of stages that do nothing, in alternation with bare Celery chords of the same shape on the same
workers.  Memory is taken after each round; flat means that the second half needs no more than a tenth above the end of
the first.  `python benchmarks/throughput.py [--tasks 10000] [--children 24]`
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence

import redis
from figures import table, write
from idle_farm import BARE, RUN, Crew, IdleFarm, bare_chord, candidates, idle_farm

from orchestrator.farm.connection import FarmConnection, make_sender
from orchestrator.farm.dispatcher import Dispatcher
from orchestrator.farm.work import FarmEvaluator
from orchestrator.farm.workers import delete_results
from orchestrator.runs.lifecycle import delete_run
from tasks.plan import Plan, stage_refs
from tasks.store.address import queues_url, store_url
from tasks.store.client import connect
from tasks.store.store import Store
from workers.app import create_app

WANTED_RATIO, FLAT = 0.8, 1.1
DATA = "what Valkey keeps"  # grows with what the run has found, until it is deleted
CREWS = {"gpu": Crew("gpu"), "openai": Crew("openai", 4), "cpu": Crew("cpu")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=10_000, help="through the farm, and as many through bare Celery")
    parser.add_argument("--children", type=int, default=24, help="in a plan")
    options = parser.parse_args()
    with idle_farm(CREWS, "idle_tasks") as farm:
        sys.exit(0 if measure(farm, options.tasks, options.children) else 1)


def measure(farm: IdleFarm, tasks: int, children: int) -> bool:
    """Whether all is as it should be; prints and keeps the figures."""
    app, bare, store = make_sender(farm.url), create_app(dict(farm.environment)), Store(connect(store_url(farm.url)))
    connection = FarmConnection(app, connect(queues_url(farm.url)), store, False, lambda: None)
    evaluate = FarmEvaluator(Dispatcher(connection, RUN.id, 60.0), lambda *_: None)
    stages = sum(len(stage_refs(m)) for m in candidates(children))
    rounds = -(-tasks // stages)
    databases = [connect(queues_url(farm.url)), app.backend.client, store.redis]
    bare_chord(bare, Plan("warm", 0, candidates(children)))
    delete_results(app, BARE)
    before = keys(databases)
    store.put_run(RUN)
    seconds: dict[str, list[float]] = {"farm": [], "bare": []}
    memory: list[dict[str, float]] = []
    for number in range(rounds):
        plan = Plan("offspring", number, candidates(children))
        for name, work in (("farm", evaluate), ("bare", lambda p: bare_chord(bare, p))):
            started = time.perf_counter()
            work(plan)
            seconds[name].append(time.perf_counter() - started)
        store.forget_plans(RUN.id, [plan.name])  # as a run does when a generation is in its output folder
        delete_results(app, BARE)
        memory.append({**farm.resident_mb(), DATA: used_mb(store.redis)})
    kept = len(keys(databases) - before)
    delete_run(connection, RUN.id)
    left = sorted(keys(databases) - before)
    return report(stages, seconds, memory, kept, left)


def report(
    stages: int, seconds: dict[str, list[float]], memory: list[dict[str, float]], kept: int, left: list[str]
) -> bool:
    done = stages * len(memory)
    speeds = {name: done / sum(values) for name, values in seconds.items()}
    ratio = statistics.median(b / f for f, b in zip(seconds["farm"], seconds["bare"], strict=True))
    rows = [[name, str(done), f"{sum(values):.1f}", f"{speeds[name]:.0f}"] for name, values in seconds.items()]
    print(table(["way", "tasks", "s", "tasks a second"], rows))
    print(f"ratio {ratio:.2f}, the median of {len(memory)} rounds (wanted: at least {WANTED_RATIO})\n")
    growth = {name: grown([m[name] for m in memory]) for name in memory[0]}
    rows = [
        [name, *(f"{mb:.1f}" for mb in quarters([m[name] for m in memory])), f"{growth[name]:.3f}"] for name in growth
    ]
    print(table(["resident MB after", "a quarter", "half", "three", "all", "growth"], rows))
    print(f"growth is all against half (wanted: at most {FLAT}, of the processes)\n")
    print(f"{kept} keys of the run in Redis; after its deletion {len(left)} (wanted: 0) {' '.join(left[:5])}")
    write(
        "throughput",
        {"tasks": done, "ratio": ratio, "tasks_a_second": speeds, "seconds": seconds, "memory_mb": memory,
         "keys_of_the_run": kept, "keys_left": left},
    )  # fmt: skip
    flat = all(value <= FLAT for name, value in growth.items() if name != DATA)
    return ratio >= WANTED_RATIO and flat and not left


def quarters(values: Sequence[float]) -> list[float]:
    """What had been reached after each quarter."""
    return [values[max(0, len(values) * part // 4 - 1)] for part in (1, 2, 3, 4)]


def grown(values: Sequence[float]) -> float:
    _, half, _, end = quarters(values)
    return end / half


def keys(databases: Sequence[redis.Redis]) -> set[str]:
    """All keys of the farm's databases: messages, results, store."""
    return {f"{n}:{key.decode()}" for n, client in enumerate(databases) for key in client.scan_iter(count=1000)}


def used_mb(client: redis.Redis) -> float:
    return float(client.info("memory")["used_memory"]) / 2**20


if __name__ == "__main__":
    main()
