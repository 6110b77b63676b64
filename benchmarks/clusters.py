"""What clustering the embedded target's vocabulary costs, by stage, and how its embedding compares with the plain way.

The plain way is `SentenceTransformer.encode` of every token's text in batches of 32.  It is compared on a sample of the
vocabulary, in alternating rounds of one process, the model's loading counted on both sides; the ratio is of medians.
Wanted: the whole vocabulary in under 90 seconds on two cores.
`python benchmarks/clusters.py [--sample 6144] [--rounds 3]`
"""

from __future__ import annotations

import argparse
import resource
import statistics
import tempfile
import time
from collections.abc import Callable

import numpy as np
from figures import table, write

from tasks.gpu.clustering import run_clustering
from tasks.gpu.clustering.process import no_progress
from tasks.models import Clusters
from workers.embedded.models import embedded_embedder, embedded_model

STAGES = ("start", "decode", "embed", "reduce", "cluster", "write")
WANTED_S = 90.0


def by_stage(batch_size: int) -> dict[str, float]:
    """Seconds of each stage of one clustering in a process of its own, into an empty folder."""
    began: dict[str, float] = {"start": time.perf_counter()}

    def note(stage: str, done: int, total: int) -> None:
        began.setdefault(stage, time.perf_counter())

    with tempfile.TemporaryDirectory() as folder:
        clusters = Clusters(folder, "embedded", components=50, count=10, seed=42, batch_size=batch_size, device="cpu")
        run_clustering(embedded_model(), clusters, embedded_embedder(), note)
        ended = time.perf_counter()
    marks = [began[stage] for stage in STAGES] + [ended]
    return {stage: marks[i + 1] - marks[i] for i, stage in enumerate(STAGES)}


def against_plain(sample: int, rounds: int, batch_size: int) -> tuple[float, float, float]:
    """Median seconds of our way and of the plain way on the same tokens, and the largest difference of a number."""
    import torch
    from sentence_transformers import SentenceTransformer
    from transformers import AutoTokenizer

    from tasks.gpu.clustering.embed import MAX_LENGTH, embed_tokens, embedded_text
    from tasks.gpu.clustering.vocabulary import decode_vocabulary

    torch.set_num_threads(2)
    vocabulary = decode_vocabulary(AutoTokenizer.from_pretrained(embedded_model(), trust_remote_code=False))
    chosen = np.random.default_rng(0).choice(len(vocabulary), sample, replace=False)
    texts = [vocabulary[i] for i in chosen]

    def ours() -> np.ndarray:
        return embed_tokens(texts, embedded_embedder(), "cpu", batch_size, no_progress)

    def plain() -> np.ndarray:
        model = SentenceTransformer(str(embedded_embedder()), device="cpu", trust_remote_code=False)
        model.max_seq_length = MAX_LENGTH  # the same input on both sides
        return model.encode([embedded_text(text) for text in texts], batch_size=32, show_progress_bar=False)

    seconds: dict[Callable[[], np.ndarray], list[float]] = {ours: [], plain: []}
    found: dict[Callable[[], np.ndarray], np.ndarray] = {}
    for _ in range(rounds):
        for way, spent in seconds.items():
            started = time.perf_counter()
            found[way] = way()
            spent.append(time.perf_counter() - started)
    difference = float(np.abs(found[ours] - found[plain]).max())
    return statistics.median(seconds[ours]), statistics.median(seconds[plain]), difference


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=6144, help="tokens in the comparison with the plain way")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=256)
    options = parser.parse_args()
    stages = by_stage(options.batch_size)
    # In kilobytes on Linux; of the largest child so far, which is the clustering.
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    ours, plain, difference = against_plain(options.sample, options.rounds, options.batch_size)
    total = sum(stages.values())
    rows = [(stage, f"{seconds:.1f}") for stage, seconds in stages.items()] + [("in all", f"{total:.1f}")]
    print(table(("stage", "seconds"), rows))
    print(f"\npeak memory of the clustering process: {memory:.0f} MB; wanted in all: under {WANTED_S:.0f} s\n")
    head = ("embedding", f"seconds for {options.sample} tokens", "ratio")
    print(table(head, [("ours", f"{ours:.1f}", f"{plain / ours:.2f}"), ("plain", f"{plain:.1f}", "1.00")]))
    print(f"\nlargest difference of one number of an embedding: {difference:.1e}")
    figures = {"seconds": stages, "seconds_in_all": total, "memory_mb": memory, "wanted_s": WANTED_S}
    compared = {"sample": options.sample, "ours_s": ours, "plain_s": plain, "times_as_fast": plain / ours}
    write("clusters", {**figures, "against_plain": {**compared, "largest_difference": difference}})


if __name__ == "__main__":
    main()
