"""A step of the embedded target with few answers: a quarter of the rows, or half of them, against all rows.

A target steps 32 rows.  Steps of 8, 16 and 32 rows take turns in one run; the ratio is of the medians of 8 and 32.
`python benchmarks/step_sizes.py [--steps 40]`
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch
from figures import table, write

from workers.embedded.models import embedded_model
from workers.embedded.target.decoder import Decoder, step_sizes

ROWS, PROMPT = 32, 160


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=40)
    options = parser.parse_args()
    took: dict[int, list[float]] = {size: [] for size in step_sizes(ROWS)}
    with torch.inference_mode():
        decoder = Decoder(embedded_model(), torch.bfloat16)
        cache = decoder.new_cache(decoder.calibrate(ROWS))
        prompt = decoder.prefill(range(100, 100 + PROMPT))
        for row in range(cache.rows):
            cache.admit(row, prompt.kv, options.steps)
        for number in range(options.steps):
            for size, found in took.items():
                began = time.perf_counter()
                logits = decoder.step(dict.fromkeys(range(size), (5, PROMPT + number)), cache)
                found.append(1000 * (time.perf_counter() - began))
                if len(logits) != size:
                    raise SystemExit(f"this machine steps {len(logits)} rows for {size}: it has no smaller steps")
    medians = {size: statistics.median(found) for size, found in took.items()}
    print(table(["rows", "ms a step"], [[str(size), f"{value:.1f}"] for size, value in medians.items()]))
    ratio = medians[ROWS] / medians[min(medians)]
    print(f"ratio {ratio:.2f}: a step of all rows against one of a quarter of them")
    write("step_sizes", {"steps": options.steps, "ms": medians, "ratio": ratio})


if __name__ == "__main__":
    main()
