"""Counting token frequencies: tokens a second on one core and peak memory, for 1, 10 and 100 million tokens.

The answers are made as they are counted and never held: Zipf-like token ids, lists of Python integers as a tokenizer
gives them, five answers an example.  The plain way is what one would write first: a Counter a side, a loop over the
tokens that adds each answer's weight.  Making the answers is timed apart and is not in the figures.

    python benchmarks/frequencies.py [--millions 1 10 100]
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from figures import table, write

from tasks.collect.frequencies import ShardCounts, count_shard, frequencies, sum_counts

VOCABULARY, VERBOSE, COMPRESSED, SAMPLES = 128_256, 300, 100, 5
WANTED = 1_000_000  # tokens a second a core
SHARDS, ROUNDS = 10, 5


class Stream:
    """Retained pairs, made one after the other; `seconds` is what making them took."""

    def __init__(self, tokens: int) -> None:
        self.pairs = tokens // (VERBOSE + COMPRESSED)
        self.seconds = 0.0

    def __iter__(self) -> Iterator[tuple[int, list[int], list[int]]]:
        rng = np.random.default_rng(0)
        started = time.perf_counter()
        for number in range(self.pairs):
            ids = np.minimum(rng.pareto(0.6, VERBOSE + COMPRESSED), VOCABULARY - 1).astype(np.int64).tolist()
            pair = 1 + number // SAMPLES % SAMPLES, ids[:VERBOSE], ids[VERBOSE:]
            self.seconds += time.perf_counter() - started
            yield pair
            started = time.perf_counter()


def plain(pairs: Iterable[tuple[int, list[int], list[int]]]) -> tuple[dict[int, float], dict[int, float]]:
    """The weighted frequencies by a loop over the tokens, in floating point."""
    raw: Counter[int] = Counter()
    comp: Counter[int] = Counter()
    for m, verbose, compressed in pairs:
        weight: Any = 1 / m  # a Counter's values may be fractions, whatever its type says
        for token in verbose:
            raw[token] += weight
        for token in compressed:
            comp[token] += weight
    total_raw, total_comp = sum(raw.values()), sum(comp.values())
    return {t: c / total_raw for t, c in raw.items()}, {t: c / total_comp for t, c in comp.items()}


def peak_mb() -> float:
    """The kernel's own mark of this program's peak: that of getrusage outlives an exec."""
    found = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    return int(found[1]) / 1024 if found else float("nan")


def measure(tokens: int) -> dict[str, float]:
    """In this process, which nothing else has used: counting, then the frequencies at the end."""
    count_shard([(1, [0], [0])])
    before, stream = peak_mb(), Stream(tokens)
    began = time.perf_counter()
    counts = count_shard(stream)
    seconds = time.perf_counter() - began - stream.seconds
    counted, began = peak_mb(), time.perf_counter()
    found = frequencies(counts)
    closing = time.perf_counter() - began
    return {
        "tokens": float(sum(counts.tokens)),
        "distinct": float(len(found.order)),
        "seconds": seconds,
        "tokens_a_second": sum(counts.tokens) / seconds,
        "closing_s": closing,
        "counting_mb": counted - before,
        "peak_mb": peak_mb(),
    }


def against_plain(tokens: int) -> dict[str, float]:
    """Median seconds of both ways for the same tokens, in alternating rounds, and their largest difference.

    Ten shards that are merged backwards must give the same bits.
    """
    pairs = list(Stream(tokens))
    spent: dict[str, list[float]] = {"ours": [], "plain": []}
    for _ in range(ROUNDS):
        began = time.perf_counter()
        ours = frequencies(count_shard(pairs))
        spent["ours"].append(time.perf_counter() - began)
        began = time.perf_counter()
        raw, comp = plain(pairs)
        spent["plain"].append(time.perf_counter() - began)
    seconds, plain_seconds = statistics.median(spent["ours"]), statistics.median(spent["plain"])
    apart = max(abs(ours.delta[t] - raw.get(t, 0.0) + comp.get(t, 0.0)) for t in ours.order)
    shards: list[ShardCounts] = [count_shard(pairs[start::SHARDS]) for start in range(SHARDS)]
    assert frequencies(sum_counts(reversed(shards))) == ours, "shards that were merged are other bits"
    return {
        "ours_s": seconds,
        "plain_s": plain_seconds,
        "times_as_fast": plain_seconds / seconds,
        "largest_difference": apart,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millions", type=int, nargs="+", default=[1, 10, 100])
    parser.add_argument("--one", type=int, metavar="TOKENS", help="measure in this process and print JSON")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one)))
        return
    rows: list[dict[str, float]] = []
    for millions in options.millions:
        # A process each: its peak is then that of this size alone.
        command = [sys.executable, __file__, "--one", str(millions * 1_000_000)]
        rows.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    compared = against_plain(1_000_000)
    head = ("tokens", "distinct", "seconds", "million a second", "at the end", "memory for counting", "peak")
    cells = [
        (
            *(f"{r['tokens']:,.0f}", f"{r['distinct']:,.0f}", f"{r['seconds']:.2f}"),
            *(f"{r['tokens_a_second'] / 1e6:.1f}", f"{r['closing_s']:.2f} s"),
            *(f"{r['counting_mb']:.0f} MB", f"{r['peak_mb']:.0f} MB"),
        )
        for r in rows
    ]
    print(table(head, cells))
    print(f"\nwanted: {WANTED / 1e6:.0f} million a second; one process, one core")
    print(
        f"against the plain loop, 1 million tokens: {compared['times_as_fast']:.1f} times as fast "
        f"({compared['ours_s']:.2f} s, {compared['plain_s']:.2f} s), with the frequencies at the end; "
        f"differences at most {compared['largest_difference']:.1e}"
    )
    write("frequencies", {"wanted_tokens_a_second": WANTED, "sizes": rows, "against_plain": compared})


if __name__ == "__main__":
    main()
