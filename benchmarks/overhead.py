"""The farm's own overhead a child: a plan whose stages do nothing, against a bare Celery chord of the same shape.

Both run on the same workers (one process a queue, as in the embedded farm), in alternating rounds of one run; the
ratio is that of the medians.  `python benchmarks/overhead.py [--children 24] [--rounds 9]`
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from celery import Celery, chain, chord
from figures import table, write

from orchestrator.dispatch.evaluator import FarmEvaluator
from orchestrator.dispatch.sender import make_sender
from tasks.plan import QUEUE_OF, Member, Merge, Plan, steps
from tasks.redis_url import ENVIRONMENT_VARIABLE, store_url
from tasks.run import Clusters, Endpoint, Fitness, Judge, Reflector, Run, Sampling, Target
from tasks.store import Store, connect
from workers.app import create_app
from workers.embedded import valkey
from workers.process import ChildProcess, Command
from workers.queues import MODULES_VARIABLE, QUEUES, worker_command, worker_environment
from workers.worker_ping import worker_answers

RUN = Run(
    "bench", 1,
    Target("m", "embedded", "resident", "", "", "", "cpu", "auto", 1, 1, 1, "", "", Sampling(1, 0, 1, 1)),
    Judge("m", 0.01, True, 0, 1, 1, 1, 1), Reflector("m", 0, 1, 1, 1), Endpoint("", "K", 1, 1, 1, 1, 0, 0, 0, 0),
    Fitness(0.4, 0.6, 50), Clusters("", "m", 1, 1, 1, 1, "cpu"), True,
)  # fmt: skip


def members(children: int) -> tuple[Member, ...]:
    """Half of the children merged, half of them mutated: four to eight stages each."""
    merge = Merge("a", 0.5, "b", 0.5)
    return tuple(
        Member(i, (0.0,) * 12, merge=merge if i % 2 else None, target=3 if i % 4 < 2 else None) for i in range(children)
    )


def bare_chord(app: Celery, plan: Plan) -> None:
    """The same tasks on the same queues with the same arguments, and nothing of ours."""
    chains = []
    for member in plan.members:
        arguments = [(plan.name, member.index, step.phase, 1) for step in steps(member)]
        names = [f"{QUEUE_OF[s.stage]}.bare_{s.stage}" for s in steps(member)]
        chains.append(
            chain(
                *(app.signature(n, args=("bench", *a), immutable=True) for n, a in zip(names, arguments, strict=True))
            )
        )
    body = app.signature("cpu.bare_gather", args=("bench", plan.name, 1), immutable=True)
    chord(chains, app=app)(body).get(timeout=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--children", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), options.children, options.rounds)


def measure(folder: Path, children: int, rounds: int) -> None:
    socket = valkey.socket_path(folder)
    url = valkey.redis_url(socket)
    server = valkey.valkey_process(folder, socket, None)
    here = str(Path(__file__).parent)
    environment = {**os.environ, ENVIRONMENT_VARIABLE: url, MODULES_VARIABLE: "idle_tasks", "PYTHONPATH": here}
    server.start()
    workers = []
    try:
        server.wait_ready(lambda: valkey.answers(socket), 30)
        for queue in QUEUES:
            argv = tuple(worker_command(queue, queue, 4 if queue == "openai" else 1, "WARNING"))
            command = Command(queue, argv, folder / f"{queue}.log", {**environment, **worker_environment(queue)})
            workers.append(ChildProcess(command))
            workers[-1].start()
            workers[-1].wait_ready(lambda q=queue: worker_answers(url, q), 60)
        compare(url, {**environment}, children, rounds)
    finally:
        for worker in workers:
            worker.stop(5)
        server.stop(5)
        valkey.remove_socket(folder)


def compare(url: str, environment: dict[str, str], children: int, rounds: int) -> None:
    environment.pop(MODULES_VARIABLE)
    app, bare, store = make_sender(url), create_app(environment), Store(connect(store_url(url)))
    store.put_run(RUN)
    evaluate = FarmEvaluator(app, store, RUN.id, lambda plan, records: None, 60.0)
    seconds: dict[str, list[float]] = {"farm": [], "bare": []}
    for number in range(rounds + 1):  # the first warms up
        plan = Plan(f"g{number}_child", number, members(children))
        for name, work in (("farm", evaluate), ("bare", lambda p: bare_chord(bare, p))):
            started = time.perf_counter()
            work(plan)
            if number:
                seconds[name].append(time.perf_counter() - started)
    stages = sum(len(steps(m)) for m in members(children))
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    ratio = medians["farm"] / medians["bare"]
    rows = [[name, f"{m:.3f}", f"{1000 * m / children:.1f}", f"{1000 * m / stages:.2f}"] for name, m in medians.items()]
    print(table(["way", "median s", "ms a child", "ms a stage"], rows))
    print(f"ratio {ratio:.2f} (wanted: at most 1.3); {children} children, {stages} stages, {rounds} rounds")
    write("overhead", {"children": children, "stages": stages, "seconds": seconds, "ratio": ratio})
    sys.exit(0 if ratio <= 1.3 else 1)


if __name__ == "__main__":
    main()
