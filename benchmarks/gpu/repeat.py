"""How far a run repeats on a GPU: the same individual's answers beside different other requests, token for token.

Each server answers all questions for one individual alone, and several times among other individuals, each time in
another order.  One server has SGLang's defaults, one `--enable-deterministic-inference`, whose cost is measured too.
`python benchmarks/gpu/repeat.py --model FOLDER --data FILE --folder WORK`
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import random
import statistics
import sys
import time
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np

from benchmarks.gpu import common
from tasks.context import content_hash
from tasks.dataset import load_examples
from tasks.gpu.answer import PromptBatch, prompt_batch, requests_for
from tasks.gpu.target import Generated, GenerateRequest, TargetClient
from tasks.models import Target
from workers.sglang.host import LocalTargetHost

WAYS = {"default": "", "deterministic": "--enable-deterministic-inference"}
WATCHED = 0  # the individual whose answers are compared


def requests_of(target: Target, batch: PromptBatch, clustering: str, people: int) -> list[list[GenerateRequest]]:
    """The requests of each individual."""
    plan = common.population("repeat", people, 5)
    rids = dict.fromkeys(range(len(batch.ids)), "")
    return [requests_for(target, clustering, candidate.deltas or (), batch, rids) for candidate in plan.candidates]


def answers(
    client: TargetClient, people: Sequence[Sequence[GenerateRequest]], seed: int
) -> tuple[list[tuple[int, ...]], float]:
    """The token ids of the compared individual's answers, all requests in flight in a random order; tokens a second."""
    order = [(person, question) for person, batch in enumerate(people) for question in range(len(batch))]
    random.Random(seed).shuffle(order)
    found: dict[tuple[int, int], Generated] = {}
    started = time.perf_counter()
    client.generate_many([people[p][q] for p, q in order], lambda i, answer: found.__setitem__(order[i], answer))
    seconds = time.perf_counter() - started
    watched = [found[WATCHED, question].output_ids for question in range(len(people[WATCHED]))]
    return watched, sum(answer.completion_tokens for answer in found.values()) / seconds


def measure(options: argparse.Namespace, way: str, labels: np.ndarray, batch: PromptBatch) -> dict[str, Any]:
    target = common.target_of(options, options.concurrency)
    target = dataclasses.replace(target, args=f"{target.args} {WAYS[way]}")
    host = LocalTargetHost(options.folder / way.replace(" ", "-"), "repeat", dict(os.environ))
    clustering = content_hash(labels.tolist())[:32]
    np.save(host.labels_folder() / f"{clustering}.npy", labels, allow_pickle=False)
    try:
        url = host.serve(target)
        client = TargetClient(url, 600, options.concurrency, api_key=host.api_key(target))
        people = requests_of(target, batch, clustering, options.individuals)
        answers(client, people, 0)  # fills the prefix cache, compiles kernels
        company = [answers(client, people, seed) for seed in range(1, 1 + options.rounds)]
        alone, _ = answers(client, people[:1], 0)
        version = str(host.describe()["version"])
    finally:
        host.close()
    times = [found for found, _ in company]
    return {
        "equal_in_company": [equal(a, b) for a, b in combinations(times, 2)],
        "equal_alone": [equal(alone, found) for found in times],
        "questions": len(alone),
        "tokens_a_second": [speed for _, speed in company],
        "sglang": version,
    }


def equal(first: Sequence[object], second: Sequence[object]) -> int:
    return sum(a == b for a, b in zip(first, second, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    common.add_options(parser)
    parser.add_argument("--individuals", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3, help="times in company")
    parser.add_argument("--concurrency", type=int, default=800, help="requests in flight")
    options = parser.parse_args()
    options.folder = common.fresh(options.folder)
    model = common.model_folder(options)
    examples = tuple((e.id, e.context, e.question) for e in load_examples(options.data)[: options.rows])
    batch = prompt_batch(model, common.SYSTEM_PROMPT, common.TEMPLATE, examples)
    labels = common.labels_for(model)
    ways = {way: measure(options, way, labels, batch) for way in WAYS if options.engine == "sglang" or not WAYS[way]}
    rows = [
        [way, spread(found["equal_in_company"]), spread(found["equal_alone"]), str(found["questions"]),
         f"{statistics.median(found['tokens_a_second']):,.0f}"]
        for way, found in ways.items()
    ]  # fmt: skip
    print(common.table(["server", "equal, other company", "equal, alone", "of", "tokens/s"], rows))
    common.write("repeat", options, str(next(iter(ways.values()))["sglang"]), ways=ways)


def spread(numbers: Sequence[int]) -> str:
    return f"{min(numbers)} to {max(numbers)}" if len(set(numbers)) > 1 else str(numbers[0])


if __name__ == "__main__":
    main()
