"""Clustering large vocabularies: seconds by stage, and the peak memory of the process and of the GPU.

The vocabularies are artificial: the tokens of a real tokenizer and, for the rest, pairs of its words joined together.
A pair is longer than most real tokens, so a real vocabulary of that size costs less.
`python benchmarks/gpu/vocabulary.py --tokenizer FOLDER --embedder FOLDER --device cuda [--sizes 128256 262144]`
"""

from __future__ import annotations

import argparse
import contextlib
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import tokenizers
import transformers

from benchmarks import figures
from benchmarks.gpu import common
from tasks.gpu.clustering import run_clustering
from tasks.gpu.clustering.vocabulary import decode_vocabulary
from tasks.gpu.prompt import load_tokenizer
from tasks.models import Clusters
from workers.embedded import models
from workers.sglang.gpus import Gpu, GpuUnavailable, available_gpus

STAGES = ("start", "decode", "embed", "reduce", "cluster", "write")
END = "<end>"
PERIOD_S = 0.02


def make_tokenizer(size: int, words: list[str], folder: Path) -> Path:
    """A tokenizer of `size` tokens: the words, then pairs of them, and an end-of-text token."""
    random = np.random.default_rng(5)
    plain = [word.strip() for word in words if word.strip().isalpha()]
    chosen = dict.fromkeys([END, *words])
    while len(chosen) < size:
        chosen.update(dict.fromkeys("".join(pair) for pair in random.choice(plain, (size, 2))))
    vocabulary = {word: number for number, word in enumerate(list(chosen)[:size])}
    model = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token=END))
    transformers.PreTrainedTokenizerFast(tokenizer_object=model, eos_token=END).save_pretrained(folder)
    return folder


@contextlib.contextmanager
def peak_of(gpu: Gpu | None) -> Iterator[list[int]]:
    """The peak of the GPU's memory while the block runs, in bytes above the use before it."""
    peak = [0]
    if gpu is None:
        yield peak
        return
    before, ended = gpu.memory()[0], threading.Event()

    def watch() -> None:
        while not ended.wait(PERIOD_S):
            peak[0] = max(peak[0], gpu.memory()[0] - before)

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    yield peak
    ended.set()
    watching.join()


def cluster(tokenizer: Path, options: argparse.Namespace) -> dict[str, float]:
    """Seconds of each stage of one clustering, in a process of its own and an empty folder."""
    began: dict[str, float] = {"start": time.perf_counter()}
    embedder = models.embedded_embedder() if options.embedder == "embedded" else options.embedder
    with tempfile.TemporaryDirectory() as folder:
        clusters = Clusters(folder, "", 50, 10, 42, options.batch_size, options.device)
        run_clustering(tokenizer, clusters, embedder, lambda stage, *_: began.setdefault(stage, time.perf_counter()))
    marks = [*(began[stage] for stage in STAGES), time.perf_counter()]
    return {stage: marks[i + 1] - marks[i] for i, stage in enumerate(STAGES)}


def measure(size: int, words: list[str], options: argparse.Namespace) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = make_tokenizer(size, words, Path(folder))
        gpu = None
        if options.device == "cuda":
            with contextlib.suppress(GpuUnavailable):
                gpu = available_gpus()[0]
        with peak_of(gpu) as peak:
            stages = cluster(tokenizer, options)
    resident = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    return {**stages, "seconds": sum(stages.values()), "resident_bytes": resident, "gpu_bytes": peak[0]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokenizer", required=True, help="a folder, or embedded: whose words are used")
    parser.add_argument("--embedder", default="embedded", help="a folder, or embedded")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--batch-size", type=int, default=4096)
    parser.add_argument("--sizes", type=int, nargs="+", default=[128_256, 262_144])
    options = parser.parse_args()
    folder = str(models.embedded_model()) if options.tokenizer == "embedded" else options.tokenizer
    words = decode_vocabulary(load_tokenizer(folder))
    found = {}
    for size in options.sizes:
        found[size] = measure(size, words, options)
        print(f"{size} tokens: {found[size]['seconds']:.1f} s", flush=True)
    head = ["tokens", *STAGES, "all s", "process MB", "GPU MB"]
    rows = [
        [
            str(size),
            *(f"{f[stage]:.1f}" for stage in STAGES),
            f"{f['seconds']:.1f}",
            f"{f['resident_bytes'] / 1e6:.0f}",
            f"{f['gpu_bytes'] / 1e6:.0f}",
        ]
        for size, f in found.items()
    ]
    print(figures.table(head, rows))
    command = " ".join(["python", *sys.argv])
    device = {"device": options.device, "gpus": common.gpus(), "batch_size": options.batch_size}
    figures.write("gpu_vocabulary", {"command": command, "words": len(words), **device, "sizes": found})
    return 0


if __name__ == "__main__":
    sys.exit(main())
