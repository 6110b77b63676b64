"""How the threads of a parallel loop should wait for each other: by spinning, by sleeping, or one after the other.

Each way is measured in a process of its own, alone and beside one that keeps a core busy: a step of the embedded
target with 16 rows, which takes one thread while others want the cores; and sixty linear layers on all threads, as
the clustering of a vocabulary has them.  The ratio is of the first, on a free machine.
`python benchmarks/threads.py [--steps 60]`
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from figures import table, write

from workers.queues import OPENMP_ENV

WAYS = {
    "spin (the default)": {},
    "sleep": {"OMP_WAIT_POLICY": "PASSIVE"},
    "spin a little, then sleep (workers)": OPENMP_ENV,
}
ROWS, PROMPT = 16, 160
LAYERS, INPUTS, OUTPUTS = 60, 576, 1536


def measured(steps: int) -> dict[str, float]:
    """Median milliseconds of a step and of all layers, in this process."""
    import torch

    from workers.embedded.models import embedded_model
    from workers.embedded.target.decoder import Decoder

    weights = [torch.randn(OUTPUTS, INPUTS) for _ in range(LAYERS)]
    x = torch.randn(ROWS, INPUTS)
    decoder = Decoder(embedded_model(), torch.bfloat16)
    cache = decoder.new_cache(decoder.calibrate(ROWS))
    with torch.inference_mode():
        torch.set_num_threads(os.cpu_count() or 1)
        layers = median_ms(lambda _: [torch.nn.functional.linear(x, w) for w in weights], steps)
        prompt = decoder.prefill(range(100, 100 + PROMPT))
        for row in range(cache.rows):
            cache.admit(row, prompt.kv, steps)
        step = median_ms(lambda n: decoder.step(dict.fromkeys(range(cache.rows), (5, PROMPT + n)), cache), steps)
    return {"step": step, "layers": layers}


def median_ms(work: Callable[[int], object], times: int) -> float:
    found = []
    for number in range(times):
        start = time.perf_counter()
        work(number)
        found.append(1000 * (time.perf_counter() - start))
    return statistics.median(found)


def elsewhere(way: dict[str, str], steps: int, busy: bool) -> dict[str, float]:
    """The same in a process that waits in this way, beside a busy one or none."""
    environment = {name: value for name, value in os.environ.items() if name not in OPENMP_ENV} | way
    command = [sys.executable, __file__, "--steps", str(steps), "--here"]
    neighbour = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if busy else None
    try:
        out = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    finally:
        if neighbour is not None:
            neighbour.kill()
            neighbour.wait()
    found: dict[str, float] = json.loads(out.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        print(json.dumps(measured(options.steps)))
        return
    found = {
        name: {key: elsewhere(way, options.steps, busy) for key, busy in (("free", False), ("busy", True))}
        for name, way in WAYS.items()
    }
    head = ["ms", "step, free", "step, busy", "layers, free", "layers, busy"]
    rows = [
        [name, *(f"{ways[state][what]:.1f}" for what in ("step", "layers") for state in ("free", "busy"))]
        for name, ways in found.items()
    ]
    print(table(head, rows))
    sleeping, chosen = (found[name]["free"]["step"] for name in list(WAYS)[1:])
    print(f"ratio {sleeping / chosen:.2f}: a step with threads that sleep at once against the workers' setting")
    write("threads", {"steps": options.steps, "ms": found, "ratio": sleeping / chosen})


if __name__ == "__main__":
    main()
