"""A whole `orchestrator evolve` on one GPU with several numbers of individuals in flight: how often is the GPU idle?

"N individuals in flight" means as many requests as N individuals have questions (CONFIG_TARGET_CONCURRENCY).  The
worker may have more individuals whose last answers are missing, `common.MOST_SLOTS` at most (CONFIG_GPU_SLOTS).

Each run has a farm of its own (Valkey, workers, the embedded judge and reflector) and starts with empty caches; one
server answers all of them.  During a run, the server's requests in flight and the pending evaluations in the store are
sampled.  Afterwards the same requests are sent directly to the server, from processes that do nothing else.

- share: of the time in which at least one evaluation waits for answers, the part with requests in flight.
- rate: tokens a second of the run, from its first evaluation to its last score, against the direct requests.

`python benchmarks/gpu/farm.py --model FOLDER --data FILE --embedder FOLDER --folder WORK [--slots 16 8 4 1]`
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx

from benchmarks.gpu import common, direct
from benchmarks.gpu.watching import Sample, Watching
from tasks.store.address import store_url
from tasks.store.client import connect
from tasks.store.store import Store
from workers.embedded import control

WANTED_SHARE, WANTED_RATE = 0.9, 0.85
HERE = Path(__file__).parent
# The command unchanged, except that its plans stay in the store, so that their requests can be sent again.
KEEPING_PLANS = """
import sys
from orchestrator.cli import main
from tasks.store.store import Store
Store.forget_plans = lambda *_: None
sys.exit(main())
"""
IMAGE = HERE.parent.parent / "docs" / "images" / "gpu_farm.png"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    common.add_options(parser)
    parser.add_argument("--slots", type=int, nargs="+", default=[16, 8, 4, 1], help="individuals in flight")
    parser.add_argument("--population", type=int, default=32)
    parser.add_argument("--generations", type=int, default=4)
    parser.add_argument("--openai-workers", type=int, default=max(1, (os.cpu_count() or 1) // 4))
    parser.add_argument("--embedder", required=True, help="sentence-transformers folder, or embedded")
    parser.add_argument(
        "--direct",
        type=int,
        nargs="+",
        default=[512, 1024, 1600],
        help="requests in flight when sent directly; the best counts",
    )
    parser.add_argument("--set", action="append", default=[], help="a further setting of the runs, as NAME=VALUE")
    parser.add_argument("--result", default="farm", help="written to benchmarks/results/gpu_RESULT.json")
    parser.add_argument("--image", type=Path, default=IMAGE)
    options = parser.parse_args()
    options.folder = common.fresh(options.folder)
    found: list[dict[str, Any]] = []
    with (
        common.open_server(options, common.target_of(options, 1)) as (url, key),
        common.client(url, key) as http,
    ):
        for slots in options.slots:
            found.append(one_run(options, url, key, http, slots))
            report(options, common.server_version(http), found)
    tuned = max(found, key=lambda run: run["rate"])
    return 0 if tuned["share"] >= WANTED_SHARE and tuned["rate"] >= WANTED_RATE else 1


def one_run(options: argparse.Namespace, url: str, key: str | None, http: httpx.Client, slots: int) -> dict[str, Any]:
    """A run on a farm of its own, sampled, and its requests sent again without the farm."""
    flush(http)
    with control.start(common.farm_spec(options, options.openai_workers)) as farm:
        store = Store(connect(store_url(farm.redis_url)))
        store.redis.flushall()
        with Watching(store, http) as watching:
            evolve(options, farm.redis_url, url, slots)
        requests = direct.requests_of(store, common.model_folder(options))
    seconds = watching.ended - watching.began
    print(f"{slots} slots: {len(requests)} requests, {watching.tokens} tokens in {seconds:.1f} s", flush=True)
    alone = []
    for in_flight in options.direct:
        flush(http)
        alone.append(direct.drive(url, key, requests, in_flight))
    return figures_of(slots, watching, requests, alone)


def evolve(options: argparse.Namespace, redis_url: str, url: str, slots: int) -> None:
    """Run the command on the farm that is up.  Exits when it fails."""
    with (options.folder / f"slots{slots}.log").open("w") as log:
        done = subprocess.run(
            command(options, redis_url, url, slots), stdout=log, stderr=subprocess.STDOUT, check=False
        )
    if done.returncode:
        sys.exit(f"evolve ended with {done.returncode}:\n" + (options.folder / f"slots{slots}.log").read_text()[-3000:])


def command(options: argparse.Namespace, redis_url: str, url: str, slots: int) -> list[str]:
    """The command on the farm at this address; without a `url` the farm's worker starts the server."""
    settings = {
        **common.settings_of(options, redis_url, url),
        "VALIDATION_INDICES": "",
        "SGLANG_COMMAND": options.command,
        "TARGET_CONCURRENCY": slots * options.rows,
        "EMBEDDER_MODEL": options.embedder,
    }
    return [
        sys.executable,
        "-c",
        KEEPING_PLANS,
        *common.evolve_arguments(settings, options.folder / f"slots{slots}", options.set),
    ]


def flush(http: httpx.Client) -> None:
    """Clear the prefix cache, so that no run finds the prompts of an earlier one."""
    http.post("/flush_cache").raise_for_status()


def figures_of(slots: int, watching: Watching, requests: list[Any], alone: list[direct.DirectResult]) -> dict[str, Any]:
    samples = watching.samples
    seconds = watching.ended - watching.began
    pending = share(samples, lambda s: s.pending > 0)
    best = max(alone, key=lambda driven: driven.tokens / driven.seconds)
    return {
        "slots": slots,
        "seconds": seconds,
        "requests": len(requests),
        "tokens": watching.tokens,
        "tokens_a_second": watching.tokens / seconds,
        "direct": [dataclasses.asdict(driven) for driven in alone],
        "direct_tokens_a_second": best.tokens / best.seconds,
        "rate": (watching.tokens / seconds) / (best.tokens / best.seconds),
        "share": pending,
        "share_of_run": share(samples, lambda s: watching.began <= s.at <= watching.ended),
        "mean_in_flight": mean_in_flight(samples, watching),
        "samples": [dataclasses.asdict(sample) for sample in samples],
    }


def share(samples: list[Sample], wanted: Any) -> float:
    """The part with requests in flight, of the time for which `wanted` is true."""
    spans = [(b.at - a.at, a.in_flight > 0) for a, b in itertools.pairwise(samples) if wanted(a)]
    total = sum(span for span, _ in spans)
    return sum(span for span, busy in spans if busy) / total if total else 0.0


def mean_in_flight(samples: list[Sample], watching: Watching) -> float:
    inside = [s.in_flight for s in samples if watching.began <= s.at <= watching.ended]
    return sum(inside) / max(1, len(inside))


def report(options: argparse.Namespace, version: str, found: list[dict[str, Any]]) -> None:
    from benchmarks.gpu.chart import draw

    names = ("slots", "seconds", "requests", "tokens_a_second", "direct_tokens_a_second", "rate", "share")
    names = (*names, "share_of_run", "mean_in_flight")
    rows = [[str(f[n]) if isinstance(f[n], int) else f"{f[n]:.3g}" if f[n] < 100 else f"{f[n]:.0f}" for n in names]
            for f in found]  # fmt: skip
    print(common.table([name.replace("_", " ") for name in names], rows), flush=True)
    print(f"wanted with slots tuned: share {WANTED_SHARE:g}, rate {WANTED_RATE:g}", flush=True)
    draw(found, options.image)
    kept = [{name: value for name, value in run.items() if name != "samples"} for run in found]
    common.write(
        options.result, options, version,
        population=options.population, generations=options.generations, most_slots=common.MOST_SLOTS,
        openai_workers=options.openai_workers, runs=kept, wanted={"share": WANTED_SHARE, "rate": WANTED_RATE},
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
