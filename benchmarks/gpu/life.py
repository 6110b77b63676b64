"""The lifecycle of a target server: one server for the whole population, against one for each individual.

Both evaluate individuals on the same questions with the tasks and the host of a gpu worker.  `resident` has several
individuals in flight on one server; `restart` stops the server, generates the processor, starts the server, waits until
it is healthy, and answers.  All restarts take equally long, so a few individuals are enough.
`python benchmarks/gpu/life.py --model FOLDER --data FILE --folder WORK [--slots 1 4 8] [--restarts 3]`
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.gpu import common
from tasks.gpu import host as installed
from tasks.gpu.answer import answer_stage
from tasks.plan import Plan
from tasks.stage import run_stage
from tasks.store.store import Store
from workers.sglang.host import LocalTargetHost

WANTED = 40.0


def evaluate(store: Store, run: str, plan: Plan, slots: int) -> tuple[float, int]:
    """Answer for all candidates of a plan, `slots` at once.  Returns seconds and generated tokens."""
    store.put_plan(run, plan)
    attempt = store.next_attempt(run, plan.name)
    before = store.usage(run).get("target", 0.0)
    started = time.perf_counter()
    with ThreadPoolExecutor(slots) as pool:
        tasks = [
            pool.submit(run_stage, "answer", (run, plan.name, candidate.index, "pre", attempt), answer_stage)
            for candidate in plan.candidates
        ]
        for task in tasks:
            task.result()
    return time.perf_counter() - started, int(store.usage(run).get("target", 0.0) - before)


def resident(store: Store, options: argparse.Namespace, slots: int) -> dict[str, object]:
    """`rounds` populations with `slots` individuals in flight; the first one starts with an empty prefix cache."""
    run = common.run_of(f"resident{slots}", common.target_of(options, options.concurrency), options.folder)
    common.put_run(store, run, common.model_folder(options), options.data, options.rows)
    rounds = [
        evaluate(store, run.id, common.population(f"g{n}_pop", options.population, 100 * slots + n), slots)
        for n in range(options.rounds)
    ]
    seconds = [s for s, _ in rounds]
    return {
        "slots": slots,
        "seconds": seconds,
        "tokens": [t for _, t in rounds],
        "tokens_a_second": sum(t for _, t in rounds) / sum(seconds),
        "evaluations_an_hour": 3600 * options.population / statistics.median(seconds),
    }


def restart(store: Store, options: argparse.Namespace) -> dict[str, object]:
    run = common.run_of("restart", common.target_of(options, options.concurrency, "restart"), options.folder)
    common.put_run(store, run, common.model_folder(options), options.data, options.rows)
    plan = common.population("g0_pop", options.restarts, 9)
    plans = [Plan(f"{plan.name}{m.index}", 0, (m,)) for m in plan.candidates]
    found = [evaluate(store, run.id, alone, 1) for alone in plans]
    seconds = [s for s, _ in found]
    return {
        "seconds": seconds,
        "tokens": [t for _, t in found],
        "evaluations_an_hour": 3600 * len(seconds) / sum(seconds),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    common.add_options(parser)
    parser.add_argument("--population", type=int, default=8)
    parser.add_argument("--slots", type=int, nargs="+", default=[1, 4, 8])
    parser.add_argument("--concurrency", type=int, default=1024, help="requests in flight")
    parser.add_argument("--rounds", type=int, default=3, help="populations for each number of slots")
    parser.add_argument("--restarts", type=int, default=3, help="individuals with a server of their own")
    options = parser.parse_args()
    options.folder = common.fresh(options.folder)
    with common.open_valkey(options.folder) as (_, store):
        return measure(store, options)


def measure(store: Store, options: argparse.Namespace) -> int:
    target = common.target_of(options, options.concurrency)
    host = LocalTargetHost(options.folder, "life", dict(os.environ))
    installed.install(host)
    try:
        started = time.perf_counter()
        url = host.serve(target)
        start_s = time.perf_counter() - started
        with common.client(url, host.api_key(target)) as http:
            version = common.server_version(http)
        print(f"server ready in {start_s:.1f} s", flush=True)
        residents = []
        for slots in options.slots:
            residents.append(resident(store, options, slots))
            print(f"resident, {slots} slots: {residents[-1]['seconds']}", flush=True)
        again = restart(store, options)
    finally:
        installed.install(None)
        host.close()
    return report(options, version, start_s, residents, again)


def report(
    options: argparse.Namespace,
    version: str,
    start_s: float,
    residents: list[dict[str, object]],
    again: dict[str, object],
) -> int:
    def row(name: str, found: dict[str, object], size: int) -> list[str]:
        seconds, rate = found["seconds"], found["evaluations_an_hour"]
        assert isinstance(seconds, list) and isinstance(rate, float)
        return [name, f"{statistics.median(seconds) / size:.2f}", f"{rate:.0f}", f"{rate / slow:.1f}"]

    slow = again["evaluations_an_hour"]
    assert isinstance(slow, float)
    rows = [row(f"resident, {s['slots']} slots", s, options.population) for s in residents]
    rows.append(row("restart", again, 1))
    ratio = max(float(str(s["evaluations_an_hour"])) for s in residents) / slow
    print(f"{options.rows} questions of {Path(options.data).name}, {Path(options.model).name}, cap {options.cap}")
    print(common.table(["lifecycle", "s an evaluation", "evaluations an hour", "times restart"], rows))
    print(f"ratio {ratio:.1f}, wanted at least {WANTED:g}; the resident server was ready in {start_s:.1f} s, once")
    common.write(
        "life", options, version,
        population=options.population, concurrency=options.concurrency, start_s=start_s,
        resident=residents, restart=again, ratio=ratio, wanted=WANTED,
    )  # fmt: skip
    return 0 if ratio >= WANTED else 1


if __name__ == "__main__":
    sys.exit(main())
