"""Racing against full evaluation on a GPU: answered questions until the best is as good on the validation set.

Of a result of `search.py` whose runs had CONFIG_PATIENCE, so that each new best answered the validation set: `cma:N`
with full evaluation beside `raced:N`, the same search from the same seed.  A search is as good as the best that it has
validated so far.  The goal is nine tenths of the gain (in logarithms) that full evaluation had in the end; each is
charged the training questions until it first had it.

`python -m benchmarks.gpu.raced --result search_tatqa_start`
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import statistics
import sys
from collections.abc import Mapping
from typing import Any

from benchmarks import figures
from benchmarks.racing import compare

FULL, RACED = "cma", "raced"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--result", required=True, help="of benchmarks/results/gpu_RESULT.json")
    options = parser.parse_args()
    path = figures.FOLDER / f"gpu_{options.result}.json"
    if not path.exists():
        sys.exit(f"{path} does not exist")
    runs = json.loads(path.read_text("utf-8"))["runs"]
    seeds = sorted((name.partition("-")[2] for name in runs if name.startswith(f"{RACED}-")), key=int)
    pairs = {seed: (runs[f"{FULL}-{seed}"], runs[f"{RACED}-{seed}"]) for seed in seeds if f"{FULL}-{seed}" in runs}
    if not pairs:
        sys.exit(f"{path.name} has no runs {FULL}-N and {RACED}-N of one seed")
    if any(not is_validated(run) for pair in pairs.values() for run in pair):
        sys.exit(f"{path.name}: a run did not ask the validation set in each generation (CONFIG_PATIENCE)")
    try:
        compared = {seed: compare(points(full), points(raced)) for seed, (full, raced) in pairs.items()}
    except ValueError as error:
        sys.exit(f"{path.name}: {error}")
    head = ["seed", "goal", "full evaluation", "racing", "ratio", "same generations"]
    print(figures.table(head, [row(seed, one) for seed, one in compared.items()]))
    print(f"median ratio {statistics.median(one['ratio'] for one in compared.values()):.2f}")
    return 0


def is_validated(run: Mapping[str, Any]) -> bool:
    """Whether the best was asked the validation set after each generation."""
    return 0 < len(run.get("asked", ())) == len(run.get("best_on_validation", ()))


def points(run: Mapping[str, Any]) -> list[tuple[int, float]]:
    """After each generation: the training questions answered so far, and the highest fitness on validation so far."""
    highest = itertools.accumulate(run["best_on_validation"], max)
    return list(zip(itertools.accumulate(run["asked"]), highest, strict=True))


def row(seed: str, one: Mapping[str, float]) -> list[str]:
    raced = "not reached" if math.isinf(one["raced"]) else f"{one['raced']:.0f}"
    return [seed, f"{one['goal']:.3f}", f"{one['full']:.0f}", raced, f"{one['ratio']:.2f}", f"{one['same']:.2f}"]


if __name__ == "__main__":
    sys.exit(main())
