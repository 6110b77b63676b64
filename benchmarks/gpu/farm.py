"""A whole `orchestrator evolve` on one GPU with several numbers of individuals in flight: how often is the GPU idle?

"N individuals in flight" means as many requests as N individuals have questions (CONFIG_TARGET_CONCURRENCY).  The
worker may have more individuals whose last answers are missing, `common.MOST_SLOTS` at most.

Each run has a farm of its own (Valkey, workers, the embedded judge and reflector) and starts with empty caches; one
server answers all of them.  During a run, the server's requests in flight and the pending evaluations in the store are
sampled.  Afterwards the same requests are sent directly to the server, from processes that do nothing else.

- share: of the time in which at least one evaluation waits for answers, the part with requests in flight.
- rate: tokens a second of the run, from its first evaluation to its last score, against the direct requests.

Data whose right answers all have a number is judged by `exact_number`, other data by rules.

What is known is written after each step.  A run that `--seconds` interrupts counts as far as it came, and its requests
are sent directly all the same; SIGTERM ends the benchmark with what it has.

`python benchmarks/gpu/farm.py --model FOLDER --data FILE --embedder FOLDER --folder WORK [--slots 16 8 4 1]`
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import httpx
from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_fixed

from benchmarks import figures
from benchmarks.gpu import common, direct
from benchmarks.gpu.direct import Sample, Watching
from tasks.gpu.target import GenerateRequest
from tasks.store.address import store_url
from tasks.store.client import connect
from tasks.store.store import Store
from workers.embedded import farm as control

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


class Cut(Exception):
    """The benchmark was told to end."""


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
    parser.add_argument(
        "--direct-part", type=float, default=1, help="the part of the individuals whose requests are sent directly"
    )
    parser.add_argument("--seconds", type=float, default=1e9, help="a run is interrupted after so long")
    parser.add_argument("--set", action="append", default=[], help="a further setting of the runs, as NAME=VALUE")
    parser.add_argument("--result", default="farm", help="written to benchmarks/results/gpu_RESULT.json")
    options = parser.parse_args()
    options.folder = common.fresh(options.folder)
    signal.signal(signal.SIGTERM, cut)
    found: dict[int, dict[str, Any]] = {}
    with (
        common.open_server(options, common.target_of(options, 1)) as (url, key),
        common.client(url, key) as http,
    ):

        def keep(run: dict[str, Any]) -> None:
            found[run["slots"]] = run
            report(options, common.server_version(http), list(found.values()))

        try:
            for slots in options.slots:
                one_run(options, url, key, http, slots, keep)
        except Cut:
            print("cut: what is known is written", flush=True)
    tuned = max((run for run in found.values() if run["rate"]), key=lambda run: run["rate"], default=None)
    return 0 if tuned and tuned["share"] >= WANTED_SHARE and tuned["rate"] >= WANTED_RATE else 1


def cut(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Cut


def one_run(
    options: argparse.Namespace,
    url: str,
    key: str | None,
    http: httpx.Client,
    slots: int,
    keep: Callable[[dict[str, Any]], None],
) -> None:
    """A run on a farm of its own, sampled, and its requests sent again without the farm; `keep` after each step."""
    flush(http)
    alone: list[direct.DirectResult] = []
    with control.start(common.farm_spec(options, options.openai_workers)) as farm:
        store = Store(connect(store_url(farm.redis_url)))
        store.redis.flushall()
        is_cut = False
        with Watching(store, http) as watching:
            try:
                ended = evolve(options, farm.redis_url, url, slots)
            except Cut:
                ended, is_cut = "cut", True
        keep(figures_of(slots, ended, watching, [], []))
        if is_cut:
            raise Cut
        requests = direct.requests_of(store, common.model_folder(options))
    seconds = watching.ended - watching.began
    print(
        f"{slots} slots, {ended}: {len(requests)} requests, {watching.tokens} tokens in {seconds:.1f} s",
        flush=True,
    )
    keep(figures_of(slots, ended, watching, requests, []))
    sent = part_of(requests, options.direct_part)
    for in_flight in options.direct if sent else ():
        flush(http)
        alone.append(direct.drive(url, key, sent, in_flight))
        print(f"directly, {in_flight} in flight: {alone[-1]}", flush=True)
        keep(figures_of(slots, ended, watching, requests, alone, options.direct_part))


def part_of(requests: Sequence[GenerateRequest], part: float) -> list[GenerateRequest]:
    """The requests of this part of the individuals, spread evenly over all."""
    individuals = list(dict.fromkeys(request.deltas for request in requests))
    wanted = max(1, round(part * len(individuals)))
    kept = {individuals[n * len(individuals) // wanted] for n in range(wanted)} if individuals else set()
    return [request for request in requests if request.deltas in kept]


def evolve(options: argparse.Namespace, redis_url: str, url: str, slots: int) -> str:
    """Run the command on the farm that is up: how it ended.  Exits when it fails."""
    path = options.folder / f"slots{slots}.log"
    with path.open("w") as log:
        process = subprocess.Popen(command(options, redis_url, url, slots), stdout=log, stderr=subprocess.STDOUT)
        try:
            code = process.wait(options.seconds)
        except subprocess.TimeoutExpired:
            return "interrupted"
        finally:
            process.kill()  # its record stays in the store: one that is told to end would remove it
            process.wait()
    if code:
        sys.exit(f"evolve ended with {code}:\n" + path.read_text()[-3000:])
    return "finished"


def command(options: argparse.Namespace, redis_url: str, url: str, slots: int) -> list[str]:
    """The command on the farm at this address; without a `url` the farm's worker starts the server."""
    settings = {
        **common.settings_of(options, redis_url, url),
        "DATA_PATH": options.data.resolve(),
        "TRAINING": f"0-{options.rows - 1}",
        "POPULATION_SIZE": options.population,
        "NGEN": options.generations,
        "VALIDATION": "",
        "SGLANG_COMMAND": options.command,
        "TARGET_CONCURRENCY": slots * options.rows,
        "EMBEDDER_MODEL": options.embedder,
        "JUDGE": common.judge_for(options.data),
        "PROMPTS_PATH": "",
    }
    return [
        sys.executable,
        "-c",
        KEEPING_PLANS,
        *common.evolve_arguments(settings, options.folder / f"slots{slots}", options.set),
    ]


@retry(retry=retry_if_exception_type(httpx.HTTPStatusError), wait=wait_fixed(0.5), stop=stop_after_delay(60))
def flush(http: httpx.Client) -> None:
    """Clear the prefix cache, so that no run finds the prompts of an earlier one; requests may still be ending."""
    http.post("/flush_cache").raise_for_status()


def figures_of(
    slots: int,
    ended: str,
    watching: Watching,
    requests: Sequence[GenerateRequest],
    alone: Sequence[direct.DirectResult],
    part: float = 1,
) -> dict[str, Any]:
    """Of a run so far; `direct_tokens_a_second` and `rate` are None before the direct requests."""
    samples = watching.samples
    seconds = watching.ended - watching.began
    pending = share(samples, lambda s: s.pending > 0)
    rate = watching.tokens / seconds if seconds else 0.0
    best = max((directly(driven, part) for driven in alone), default=None)
    return {
        "slots": slots,
        "ended": ended,
        "seconds": seconds,
        "requests": len(requests),
        "tokens": watching.tokens,
        "tokens_a_second": rate,
        "direct": [dataclasses.asdict(driven) for driven in alone],
        "direct_tokens_a_second": best,
        "rate": rate / best if best else None,
        "share": pending,
        "share_of_run": share(samples, lambda s: watching.began <= s.at <= watching.ended),
        "mean_in_flight": mean_in_flight(samples, watching),
        "samples": [dataclasses.asdict(sample) for sample in samples],
    }


def directly(driven: direct.DirectResult, part: float) -> float:
    """Tokens a second.  Of a part of the requests the last answers weigh more: the steady rate counts, if higher."""
    whole = driven.tokens / driven.seconds
    return max(whole, driven.steady or 0.0) if part < 1 else whole


def share(samples: list[Sample], wanted: Any) -> float:
    """The part with requests in flight, of the time for which `wanted` is true."""
    spans = [(b.at - a.at, a.in_flight > 0) for a, b in itertools.pairwise(samples) if wanted(a)]
    total = sum(span for span, _ in spans)
    return sum(span for span, busy in spans if busy) / total if total else 0.0


def mean_in_flight(samples: list[Sample], watching: Watching) -> float:
    inside = [s.in_flight for s in samples if watching.began <= s.at <= watching.ended]
    return sum(inside) / max(1, len(inside))


def cell(value: float | None) -> str:
    if value is None or isinstance(value, int):
        return "-" if value is None else str(value)
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def report(options: argparse.Namespace, version: str, found: list[dict[str, Any]]) -> None:
    names = ("slots", "seconds", "requests", "tokens_a_second", "direct_tokens_a_second", "rate", "share")
    names = (*names, "share_of_run", "mean_in_flight")
    rows = [[cell(f[n]) for n in names] for f in found]
    print(figures.table([name.replace("_", " ") for name in names], rows), flush=True)
    print(f"wanted with slots tuned: share {WANTED_SHARE:g}, rate {WANTED_RATE:g}", flush=True)
    kept = [{name: value for name, value in run.items() if name != "samples"} for run in found]
    common.write(
        options.result, options, version,
        population=options.population, generations=options.generations, most_slots=common.MOST_SLOTS,
        openai_workers=options.openai_workers, judge=common.judge_for(options.data), direct_part=options.direct_part,
        runs=kept, wanted={"share": WANTED_SHARE, "rate": WANTED_RATE},
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
