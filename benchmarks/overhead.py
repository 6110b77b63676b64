"""The farm's own overhead a child: a plan whose stages do nothing, against a bare Celery chord of the same shape.

Both run on the same workers (one process a queue, as in the embedded farm), in alternating rounds of one run; the
ratio is that of the medians.  `python benchmarks/overhead.py [--children 24] [--rounds 9]`
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time

from figures import table, write
from idle_farm import RUN, Crew, bare_chord, candidates, idle_farm

from orchestrator.farm.connection import FarmConnection, make_sender
from orchestrator.farm.dispatcher import Dispatcher
from orchestrator.farm.work import FarmEvaluator
from tasks.plan import Plan, stage_refs
from tasks.store.address import queues_url, store_url
from tasks.store.client import connect
from tasks.store.store import Store
from workers.app import create_app


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--children", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    with idle_farm({"gpu": Crew("gpu"), "openai": Crew("openai", 4), "cpu": Crew("cpu")}, "idle_tasks") as farm:
        compare(farm.url, dict(farm.environment), options.children, options.rounds)


def compare(url: str, environment: dict[str, str], children: int, rounds: int) -> None:
    app, bare, store = make_sender(url), create_app(environment), Store(connect(store_url(url)))
    store.put_run(RUN)
    connection = FarmConnection(app, connect(queues_url(url)), store, False, lambda: None)
    evaluate = FarmEvaluator(Dispatcher(connection, RUN.id, 60.0), lambda *_: None)
    seconds: dict[str, list[float]] = {"farm": [], "bare": []}
    for number in range(rounds + 1):  # the first warms up
        plan = Plan("offspring", number, candidates(children))
        for name, work in (("farm", evaluate), ("bare", lambda p: bare_chord(bare, p))):
            started = time.perf_counter()
            work(plan)
            if number:
                seconds[name].append(time.perf_counter() - started)
    stages = sum(len(stage_refs(m)) for m in candidates(children))
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    ratio = medians["farm"] / medians["bare"]
    rows = [[name, f"{m:.3f}", f"{1000 * m / children:.1f}", f"{1000 * m / stages:.2f}"] for name, m in medians.items()]
    print(table(["way", "median s", "ms a child", "ms a stage"], rows))
    print(f"ratio {ratio:.2f} (wanted: at most 1.3); {children} children, {stages} stages, {rounds} rounds")
    write("overhead", {"children": children, "stages": stages, "seconds": seconds, "ratio": ratio})
    sys.exit(0 if ratio <= 1.3 else 1)


if __name__ == "__main__":
    main()
