"""From a cold GPU to the first fitness of an `orchestrator evolve`, against the start of the server alone.

The server is started once before, so that its kernels are compiled and its model is in the page cache, then once more
with the clock running.  Then a farm without a server runs `orchestrator evolve` with no clustering: the clock runs from
the command to the first score in the store.
`python benchmarks/gpu/cold.py --model FOLDER --data FILE --embedder FOLDER --folder WORK`
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
import time

from benchmarks.gpu import common, farm
from tasks.store.address import store_url
from tasks.store.client import connect
from tasks.store.keys import plan_key
from tasks.store.store import Store
from workers.embedded import control
from workers.sglang.host import LocalTargetHost

WANTED = 1.1
IN_FLIGHT = 16  # individuals
LIMIT_S = 1800.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    common.add_options(parser)
    parser.add_argument("--population", type=int, default=16)
    parser.add_argument("--generations", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], help="a further setting of the runs, as NAME=VALUE")
    parser.add_argument("--embedder", required=True, help="sentence-transformers folder, or embedded")
    options = parser.parse_args()
    options.folder = common.fresh(options.folder)
    starts, version = server_starts(options)
    first_s = first_fitness(options)
    ratio = first_s / starts[-1]
    rows = [[f"{starts[0]:.1f}", f"{starts[-1]:.1f}", f"{first_s:.1f}", f"{ratio:.2f}"]]
    print(common.table(["first start s", "server start s", "first fitness s", "ratio"], rows))
    print(f"wanted: at most {WANTED:g}")
    common.write("cold", options, version, starts_s=starts, first_fitness_s=first_s, ratio=ratio, wanted=WANTED)
    return 0 if ratio <= WANTED else 1


def server_starts(options: argparse.Namespace) -> tuple[list[float], str]:
    """Seconds of two starts of the server, and its version."""
    host, target = LocalTargetHost(options.folder / "alone", "bench", dict(os.environ)), common.target_of(options, 1)
    found = []
    try:
        for _ in range(2):
            host.stop()
            started = time.perf_counter()
            url = host.serve(target)
            found.append(time.perf_counter() - started)
        with common.client(url, host.api_key(target)) as http:
            return found, common.server_version(http)
    finally:
        host.close()


def first_fitness(options: argparse.Namespace) -> float:
    """Seconds from the command to the first score of a run on a new farm, which is then ended."""
    with control.start(common.farm_spec(options)) as running:
        store = Store(connect(store_url(running.redis_url)))
        with (options.folder / "evolve.log").open("w") as log:
            started = time.perf_counter()
            evolve = subprocess.Popen(
                farm.command(options, running.redis_url, "", IN_FLIGHT), stdout=log, stderr=subprocess.STDOUT
            )
        pause = threading.Event()
        try:
            while not has_score(store):
                if evolve.poll() is not None or time.perf_counter() - started > LIMIT_S:
                    sys.exit("no fitness:\n" + (options.folder / "evolve.log").read_text()[-3000:])
                pause.wait(0.1)
            return time.perf_counter() - started
        finally:
            evolve.terminate()
            evolve.wait()


def has_score(store: Store) -> bool:
    for run in store.run_ids():
        prefix = plan_key(run, "")
        for key in store.redis.scan_iter(match=prefix + "*", count=1000):
            if any(field.endswith(":score") for field in store.stages(run, key.decode().removeprefix(prefix))):
                return True
    return False


if __name__ == "__main__":
    sys.exit(main())
