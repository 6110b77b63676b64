"""How well the farm keeps its GPUs busy: one generation of 16 children on 1, 2, 4 and 8 gpu workers.

Real broker, real workers, real chords of chains as the evaluator sends them; the tasks only wait, each as long as the
real stage would, sped up so that the bound of a generation is --seconds whatever the number of workers.  Held against
that lower bound (the gpu work over the workers, or the longest chain) and against the specification's driver, which
does one stage at a time; "ideal" is the farm's own order without any overhead.
`python benchmarks/makespan.py [--seconds 16] [--rounds 2]`
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import os
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from figures import table, write
from idle_farm import RUN, Crew, idle_farm
from idle_tasks import SECONDS

from orchestrator.farm.connection import FarmConnection, make_sender
from orchestrator.farm.dispatcher import Dispatcher
from orchestrator.farm.work import FarmEvaluator
from tasks.plan import Candidate, Merge, Plan, stage_refs
from tasks.store.address import queues_url, store_url
from tasks.store.client import connect
from tasks.store.store import Store

WANTED = 1.15
WORKERS = (1, 2, 4, 8)
POPULATION = 16
API_THREADS = 16


@dataclass(frozen=True)
class Mix:
    """Which of a generation's children are mutated; every second one is merged."""

    name: str
    mutated: tuple[bool, ...]

    def candidates(self) -> tuple[Candidate, ...]:
        merge = Merge("a", 0.5, "b", 0.5)
        return tuple(
            Candidate(index, (float(index),) * 12, merge=merge if index % 2 else None, target=3 if mutated else None)
            for index, mutated in enumerate(self.mutated)
        )


ALL = Mix("all", (True,) * POPULATION)
MIXES = (
    ALL,
    Mix("four in five", tuple(index % 5 != 0 for index in range(POPULATION))),
    Mix("the last four", tuple(index >= POPULATION - 4 for index in range(POPULATION))),
)


def chain_s(candidate: Candidate) -> float:
    """A candidate's stages, one after the other."""
    return sum(SECONDS[step.stage] for step in stage_refs(candidate))


def lower_bound_s(candidates: Sequence[Candidate], workers: int) -> float:
    """No schedule is shorter: the gpu work shared out evenly, or the longest chain, whichever is larger."""
    gpu = sum(SECONDS["answer"] for candidate in candidates for step in stage_refs(candidate) if step.stage == "answer")
    return max(gpu / workers, *(chain_s(candidate) for candidate in candidates))


def first_come_s(candidates: Sequence[Candidate], workers: int) -> float:
    """The farm without any overhead: gpu workers take answers in the order in which they become due."""
    stages = [[SECONDS[step.stage] for step in stage_refs(candidate)] for candidate in candidates]
    on_gpu = [[step.stage == "answer" for step in stage_refs(candidate)] for candidate in candidates]
    free = [0.0] * workers
    due = [(0.0, number, 0) for number in range(len(candidates))]  # (when, whose, which stage)
    heapq.heapify(due)
    end = 0.0
    while due:
        now, candidate, stage = heapq.heappop(due)
        if on_gpu[candidate][stage]:
            now = max(now, heapq.heappop(free))
        ended = now + stages[candidate][stage]
        if on_gpu[candidate][stage]:
            heapq.heappush(free, ended)
        end = max(end, ended)
        if stage + 1 < len(stages[candidate]):
            heapq.heappush(due, (ended, candidate, stage + 1))
    return end


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=16.0, help="on the clock, for the bound of a generation")
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    scales = {workers: lower_bound_s(ALL.candidates(), workers) / options.seconds for workers in WORKERS}
    sequential = sequentially(ALL.candidates(), scales[1]) * scales[1]
    found = [one for workers, scale in scales.items() for one in measure(workers, scale, options.rounds)]
    rows = [
        [
            str(f["workers"]), f["mutated"], f"{f['bound_s']:.1f}", f"{f['ideal_s']:.1f}",
            f"{f['makespan_s']:.1f}", f"{f['ratio']:.3f}", f"{f['to_ideal']:.3f}",
        ]
        for f in found
    ]  # fmt: skip
    print(table(["gpu workers", "mutated", "bound s", "ideal s", "farm s", "to bound", "to ideal"], rows))
    alone = next(f for f in found if f["workers"] == 1 and f["mutated"] == ALL.name)
    gain = sequential / alone["makespan_s"]
    print(f"the specification's driver, one worker: {sequential:.1f} s, {gain:.2f} times as long as the farm's")
    worst = max(f["ratio"] for f in found if f["mutated"] == ALL.name)
    print(f"worst ratio to the bound with every child mutated: {worst:.3f} (wanted: at most {WANTED})")
    write("makespan", {"seconds": SECONDS, "times_faster_than_life": scales, "sequential_s": sequential, "farm": found})
    sys.exit(0 if worst <= WANTED else 1)


def measure(workers: int, scale: float, rounds: int) -> list[dict[str, Any]]:
    """Each mix of children on so many gpu workers; seconds as in life."""
    os.environ["WHETSTONE_SCALE"] = str(scale)
    crews = {f"gpu{n}": Crew("gpu") for n in range(workers)}
    with idle_farm({**crews, "openai": Crew("openai", API_THREADS), "cpu": Crew("cpu")}, "idle_tasks") as farm:
        app, store = make_sender(farm.url), Store(connect(store_url(farm.url)))
        store.put_run(RUN)
        connection = FarmConnection(app, connect(queues_url(farm.url)), store, False, lambda: None)
        evaluate = FarmEvaluator(Dispatcher(connection, RUN.id, 600.0), lambda plan, records, failures: None)
        evaluate(Plan("population", 0, tuple(Candidate(n, (0.0,) * 12) for n in range(workers))))
        found, numbers = [], itertools.count(1)
        for mix in MIXES:
            seconds = []
            for number in itertools.islice(numbers, rounds):
                started = time.perf_counter()
                evaluate(Plan("offspring", number, mix.candidates()))
                seconds.append((time.perf_counter() - started) * scale)
            found.append(figures(workers, mix, seconds))
        return found


def figures(workers: int, mix: Mix, seconds: Sequence[float]) -> dict[str, Any]:
    makespan, children = statistics.median(seconds), mix.candidates()
    longest_first = sorted(children, key=lambda child: len(stage_refs(child)), reverse=True)
    bound, ideal = lower_bound_s(children, workers), first_come_s(longest_first, workers)
    return {
        "workers": workers, "mutated": mix.name, "bound_s": bound, "ideal_s": ideal, "makespan_s": round(makespan, 2),
        "ratio": round(makespan / bound, 4), "to_ideal": round(makespan / ideal, 4),
    }  # fmt: skip


def sequentially(children: Sequence[Candidate], scale: float) -> float:
    """The specification's driver: evaluate, mutate, evaluate again, child after child."""
    started = time.perf_counter()
    for child in children:
        for step in stage_refs(child):
            time.sleep(SECONDS[step.stage] / scale)  # the time that is simulated
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
