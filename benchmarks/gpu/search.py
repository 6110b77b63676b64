"""Whole evolutions with several data sets, optimisers and seeds on one server: what each saves, and what it loses.

All runs share a farm and its store, so that what two of them ask alike is answered once; the searches themselves ask
different things.  A run that is finished is not repeated, and one that the time limit interrupts goes on at the next
call.  `--data` names files, each with how it is split: FILE=300/400/300 for training, validation and test, drawn by
`--split-seed`, or FILE=5 for folds of which run N tests the N-th.  Data whose right answers all have a number is judged
by `exact_number`, other data by rules.  `--runs` names the runs: DATA:KIND:SEED with the name of a file without its
ending and one of `KINDS`; the order is that in which they start.  The result is written after each run.

    python benchmarks/gpu/search.py --model FOLDER --data tatqa.jsonl=300/400/300 --folder WORK --runs tatqa:cma:1
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks import figures
from benchmarks.gpu import common
from orchestrator.evolve.systems import Book, read_book
from orchestrator.report.conclusion import added_by_search
from orchestrator.report.statistics import pair
from orchestrator.runs.folder import OutputFolder
from workers.embedded import farm as control

WASTE = {"CLUSTERS_BY": "waste", "INITIAL_DELTAS_PATH": "zero", "OBJECTIVE": "constrained"}
MEANING = {**WASTE, "CLUSTERS_BY": "meaning"}
KINDS: Mapping[str, Mapping[str, str]] = {
    "cma": {**WASTE, "OPTIMISER": "cma"},
    "random": {**WASTE, "OPTIMISER": "random"},
    "reflective": {**WASTE, "OPTIMISER": "reflective"},
    "meaning": {**MEANING, "OPTIMISER": "cma"},
    "small": {**WASTE, "OPTIMISER": "reflective", "POPULATION_SIZE": "4", "NGEN": "4"},
    "five": {**WASTE, "OPTIMISER": "reflective", "MARGIN": "0.05"},
    "right": {**WASTE, "OPTIMISER": "reflective", "GOAL": "most_right"},
    "few": {**WASTE, "OPTIMISER": "reflective", "CLUSTERS": "3"},
}


@dataclass(frozen=True)
class Data:
    """Questions; `split` has the numbers of training, validation and test questions, or one number of folds."""

    path: Path
    rows: int
    split: tuple[int, ...]
    judge: str

    @classmethod
    def parse(cls, text: str) -> Data:
        path, _, split = text.rpartition("=")
        rows = sum(bool(line.strip()) for line in Path(path).read_text(encoding="utf-8").splitlines())
        return cls(Path(path), rows, tuple(map(int, split.split("/"))), common.judge_for(Path(path)))

    def sets(self, seed: int, run: int) -> dict[str, list[int]]:
        """The rows of the three sets of one run."""
        order = random.Random(seed).sample(range(self.rows), self.rows)
        if len(self.split) == 1:
            [folds] = self.split
            parts = [order[(run + i) % folds :: folds] for i in range(folds)]
            return {"TEST": parts[0], "VALIDATION": parts[1], "TRAINING": list(itertools.chain(*parts[2:]))}
        first, second, third = itertools.accumulate(self.split)
        return {"TRAINING": order[:first], "VALIDATION": order[first:second], "TEST": order[second:third]}


@dataclass(frozen=True)
class NamedRun:
    data: str
    kind: str
    seed: int

    @classmethod
    def parse(cls, text: str) -> NamedRun:
        data, kind, seed = text.split(":")
        if kind not in KINDS:
            raise argparse.ArgumentTypeError(f"{text!r} has none of the kinds {', '.join(KINDS)}")
        return cls(data, kind, int(seed))

    @property
    def name(self) -> str:
        return f"{self.data}-{self.kind}-{self.seed}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    common.add_server_options(parser)
    parser.add_argument("--data", type=Data.parse, nargs="+", required=True, metavar="FILE=SPLIT")
    parser.add_argument("--split-seed", type=int, default=34, help="shuffles the questions before they are split")
    parser.add_argument("--runs", type=NamedRun.parse, nargs="+", required=True, metavar="DATA:KIND:SEED")
    parser.add_argument("--system-prompt", default=common.SYSTEM_PROMPT, help="of the plain model")
    parser.add_argument("--population", type=int, default=8)
    parser.add_argument("--generations", type=int, default=6)
    parser.add_argument("--in-flight", type=int, default=1024, help="requests at once")
    parser.add_argument("--at-once", type=int, default=6, help="runs side by side")
    parser.add_argument("--openai-workers", type=int, default=max(1, (os.cpu_count() or 1) // 4), help="calls at once")
    parser.add_argument("--seconds", type=float, default=1e9, help="runs are interrupted after so long")
    parser.add_argument("--set", action="append", default=[], help="a setting of all runs, as NAME=VALUE")
    parser.add_argument("--result", default="search", help="written to benchmarks/results/gpu_RESULT.json")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    options.folder = options.folder.resolve()
    data = {one.path.stem: one for one in options.data}
    options.rows = {name: one.rows for name, one in data.items()}
    deadline = time.monotonic() + options.seconds
    spec = common.farm_spec(options, options.openai_workers)
    with common.open_server(options, common.target_of(options, 1)) as (url, key):
        with common.client(url, key) as http:
            version = common.server_version(http)
        found: dict[str, dict[str, Any]] = {}
        lock = threading.Lock()
        with control.start(spec) as farm, ThreadPoolExecutor(options.at_once) as pool:

            def one(run: NamedRun) -> None:
                evolve(options, data[run.data], run, farm.redis_url, url, deadline)
                if measured := figures_of(options.folder / run.name):
                    with lock:
                        found[run.name] = measured
                        common.write(options.result, options, version, runs=found)

            list(pool.map(one, options.runs))
    report(found)
    return 0 if all(run.name in found for run in options.runs) else 1


def evolve(options: argparse.Namespace, data: Data, run: NamedRun, redis_url: str, url: str, deadline: float) -> None:
    """Run one evolution to its end, or until the deadline; what it prints is in its log."""
    folder = options.folder / run.name
    if (folder / "report.json").exists() or time.monotonic() > deadline - 10:
        return
    started = time.monotonic()
    with (options.folder / f"{run.name}.log").open("a") as log:
        process = subprocess.Popen(command(options, data, run, redis_url, url), stdout=log, stderr=subprocess.STDOUT)
        try:
            code: int | None = process.wait(max(1.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            process.wait()  # its jobs in flight end first
            code = None
    ended = "interrupted" if code is None else f"ended with {code}"
    print(f"{run.name} {ended} after {time.monotonic() - started:.0f} s", flush=True)


def command(options: argparse.Namespace, data: Data, run: NamedRun, redis_url: str, url: str) -> list[str]:
    settings = {
        **common.settings_of(options, redis_url, url),
        **{name: ",".join(map(str, sorted(rows))) for name, rows in data.sets(options.split_seed, run.seed).items()},
        "DATA_PATH": data.path.resolve(),
        "JUDGE": data.judge,
        "TARGET_SYSTEM_PROMPT": options.system_prompt,
        "TARGET_CONCURRENCY": options.in_flight,
        "EMBEDDER_MODEL": "embedded",
        "POPULATION_SIZE": options.population,
        "NGEN": options.generations,
        "SEED": run.seed,
        **KINDS[run.kind],
    }
    return [
        sys.executable,
        "-m",
        "orchestrator",
        *common.evolve_arguments(settings, options.folder / run.name, options.set),
    ]


SETS = ("validation", "test")


def figures_of(folder: Path) -> dict[str, Any] | None:
    """What a finished run says of itself; None for one that is not finished."""
    if not (folder / "report.json").exists():
        return None
    report = json.loads((folder / "report.json").read_text())
    book = read_book(OutputFolder(folder))
    gain = added_by_search(book, 0) if book.ordering_set == "ordering" else None
    asked = [one for one in report["systems"] if any(one[which] for which in SETS)]
    return {
        **{name: report[name] for name in ("goal", "margin", "winner")},
        "sentences": report["conclusion"]["sentences"],
        "systems": [
            {name: one[name] for name in ("name", "kind", "system_prompt", "passed", *SETS, "everyday")}
            for one in asked
        ],
        "tests": [{"name": one.name, **asdict(one.result)} for one in book.tests],
        "over_plain": over_plain(book, report["margin"]),
        "added_by_search": None if gain is None else {"gain": asdict(gain[0]), "beyond_known": gain[1]},
    }


def over_plain(book: Book, margin: float) -> dict[str, Any]:
    """Each system that was asked the test set against the plain model, by its name."""
    plain = book.plain.test
    systems = [one for one in book.having("test") if one is not book.plain]
    return {one.name: asdict(pair(plain, one.on("test"), margin, seed=0)) for one in systems if plain is not None}


def report(found: Mapping[str, dict[str, Any]]) -> None:
    """Print a table of each run's winner and of the systems that were asked the test set beside it."""
    rows = []
    for name, one in found.items():
        asked = [system["name"] for system in one["systems"] if system["test"] and system["name"] != one["winner"]]
        rows += [row(name, one, system) for system in (one["winner"], *asked)]
    columns = ["tokens", "right", "whole", "correct"]
    head = ["run", "system", *(f"{which} {one}" for which in ("val", "test") for one in columns)]
    print(figures.table([*head, "ratio", "95 %", "points", "95 %", "loss"], rows))
    for name, one in found.items():
        if added := one["added_by_search"]:
            low, value, high = (100 * added["gain"][key] for key in ("low", "value", "high"))
            print(f"{name}: the search adds {value:+.1f} ({low:+.1f} to {high:+.1f}) points of hypervolume")


def row(name: str, found: Mapping[str, Any], system: str) -> list[str]:
    [one] = [s for s in found["systems"] if s["name"] == system]
    cells = [name, system]
    for which in ("validation", "test"):
        measured = one[which]
        counts = ["", "", ""] if measured is None else [str(measured[key]) for key in ("right", "whole", "correct")]
        cells += ["" if measured is None else f"{measured['mean_tokens']:.1f}", *counts]
    paired = found["over_plain"].get(system)
    if paired is None:
        return [*cells, "", "", "", "", ""]
    ratio, change, loss = paired["ratio"]["ratio"], paired["change"]["difference"], paired["loss"]
    return [
        *cells,
        f"{ratio['value']:.3f}",
        f"{ratio['low']:.3f} to {ratio['high']:.3f}",
        f"{100 * change['value']:+.1f}",
        f"{100 * change['low']:+.1f} to {100 * change['high']:+.1f}",
        figures.loss_within_margin(loss["is_shown"], change["high"], loss["margin"]),
    ]


if __name__ == "__main__":
    sys.exit(main())
