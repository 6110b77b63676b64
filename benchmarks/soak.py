"""Whether a farm that works for long stays as large as it is: `make soak`, or `python benchmarks/soak.py --minutes 60`.

Small runs (40 an hour) on an embedded farm of its own, spread over the time: first one after the other, then three at
once, in turns.  Every few seconds it reads the memory and the open descriptors of each process, the keys and the memory
of the store, and the number and size of the files of the farm.  A straight line is fitted to each series, over the
second half of the time, when caches are full and the allocators have reserved what they need.  A series is flat when
that line rises by no more than its bound from its beginning to its end.  Exit status 1 when a series is not flat, or a
run fails.

The results and the records of a run are kept for 30 days, so within an hour they only grow.  After
each run, `orchestrator farm gc --days 0 --remove` removes what it no longer needs: the soak shows what is left.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil
import redis
from figures import table, write

from tasks.store.address import ENVIRONMENT_VARIABLE, queues_url
from tasks.store.client import connect

ROOT = Path(__file__).parents[1]
CONFIG = ROOT / "configs" / "embedded.config"
SMALL = {
    "DATA_PATH": str(ROOT / "configs" / "data" / "sample.jsonl"),
    "TRAINING": "0-2",
    "VALIDATION": "16",
    "PROMPTS_PATH": "",
    "TARGET_MAX_NEW_TOKENS": "16",
    "POPULATION_SIZE": "3",
    "NGEN": "1",
    "CXPB": "0.6",
    "MUTPB": "0.7",
    "ELITISM_SIZE": "1",
}
PROCESSES = ("supervisor", "valkey", "endpoint", "gpu", "target", "openai", "cpu")
SAMPLES = 400  # of the whole time: reading them takes a fraction of a percent of a core
TURN = 6  # runs one after the other, and then as many at once as AT_ONCE, in turns
AT_ONCE = 3


@dataclass(frozen=True)
class Bound:
    """How much a series may rise in the second half: so much, or this part of its level, whichever is more."""

    absolute: float
    relative: float = 0.0

    def of(self, level: float) -> float:
        return max(self.absolute, self.relative * level)


# Memory in MB.  An allocator gives back late what it has reserved, and three runs at once need more than one: a few MB,
# connections and keys are noise.  In the second half of an hour are some 20 runs, so a descriptor, a key or a megabyte
# that each of them leaves behind is seen.
BOUNDS = {
    "memory": Bound(12.0, 0.03),
    "descriptors": Bound(5.0),
    "store keys": Bound(10.0),
    "store MB": Bound(1.0),
    "files": Bound(4.0),
    "logs MB": Bound(20.0),  # they are rotated: 10 MB each, and three older parts
    "append-only MB": Bound(64.0),  # rewritten when it has doubled, from 64 MB on
}


@dataclass
class Series:
    """Values of one figure by time, in seconds since the start."""

    at: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def second_half(self, seconds: float) -> tuple[np.ndarray, np.ndarray]:
        at, values = np.array(self.at), np.array(self.values)
        return at[at >= seconds / 2], values[at >= seconds / 2]


def rise(at: np.ndarray, values: np.ndarray) -> float:
    """How much the line through the values rises from the first to the last.

    Its slope is that of Theil and Sen, the median of the slopes of all pairs: a peak, while several runs are at work,
    does not move it.
    """
    if len(at) < 3:
        return 0.0
    first, second = np.triu_indices(len(at), 1)
    steps = at[second] - at[first]
    return float(np.median((values[second] - values[first])[steps > 0] / steps[steps > 0])) * float(at[-1] - at[0])


class Sampler:
    """Reads all figures in a thread, until the block ends."""

    def __init__(self, farm: Path, url: str, every_s: float) -> None:
        self.farm, self.every_s = farm, every_s
        self.broker = connect(queues_url(url))
        self.series: dict[tuple[str, str], Series] = defaultdict(Series)
        self.started = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler")

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self.broker.close()

    def _run(self) -> None:
        while not self._ended.wait(self.every_s):
            now = time.monotonic() - self.started
            for name, value in self._figures():
                self.series[name].at.append(now)
                self.series[name].values.append(value)

    def _figures(self) -> Iterator[tuple[tuple[str, str], float]]:
        for name, processes in farm_processes(self.farm).items():
            memory = descriptors = 0
            for process in processes:
                with contextlib.suppress(psutil.Error):
                    memory, descriptors = memory + process.memory_info().rss, descriptors + process.num_fds()
            yield ("memory", name), memory / 2**20
            yield ("descriptors", name), descriptors
        with contextlib.suppress(redis.RedisError):
            keyspace = self.broker.info("keyspace")
            yield ("store keys", ""), sum(base["keys"] for base in keyspace.values())
            yield ("store MB", ""), self.broker.info("memory")["used_memory"] / 2**20
        files = [(path, size) for path in self.farm.rglob("*") if (size := size_of(path)) is not None]
        yield ("files", ""), len(files)
        for name, folder in (("logs MB", "logs"), ("append-only MB", "valkey")):
            yield (name, ""), sum(size for path, size in files if path.is_relative_to(self.farm / folder)) / 2**20


def size_of(path: Path) -> int | None:
    """The bytes of a file; None for a folder and for a file that is gone."""
    try:
        return path.stat().st_size if path.is_file() else None
    except FileNotFoundError:
        return None


def farm_processes(farm: Path) -> Mapping[str, list[psutil.Process]]:
    """The processes of the farm by name, each with its children."""
    from workers.embedded.farm import status

    found: dict[str, list[psutil.Process]] = {}
    for one in status(farm).processes:
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(one.pid)
            children = [] if one.name in ("supervisor", "gpu") else process.children(recursive=True)
            found[one.name] = [process, *children]
    return found


def orchestrator(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "orchestrator", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=ROOT, env={**os.environ, **environment}
    )


@dataclass(frozen=True)
class Soak:
    """The farm, and how runs are made on it."""

    folder: Path
    url: str

    @property
    def farm(self) -> Path:
        return self.folder / "farm"

    def run(self, number: int) -> str:
        """One run and what follows it: returns "" or why it failed."""
        output = self.folder / f"run{number:03d}"
        folders = {"FARM_DIR": self.farm}
        chosen = {**SMALL, **folders, "SEED": number + 1}
        sets = [part for name, value in chosen.items() for part in ("--set", f"{name}={value}")]
        done = orchestrator("evolve", "--config", str(CONFIG), "--output", str(output), "--plain", *sets)
        if done.returncode:
            return f"run {number}: exit status {done.returncode}: {done.stderr[-500:]}"
        shutil.rmtree(output)
        return self.collect()

    def collect(self) -> str:
        done = orchestrator("farm", "gc", "--days", "0", "--remove", **{ENVIRONMENT_VARIABLE: self.url})
        return f"gc: exit status {done.returncode}: {done.stderr[-500:]}" if done.returncode else ""


@contextlib.contextmanager
def running_farm(folder: Path) -> Iterator[Soak]:
    """An embedded farm in a folder of its own, on a socket of its own."""
    from workers.embedded import farm as control
    from workers.embedded.farm import FarmSpec

    spec = FarmSpec(str(folder / "farm"), openai_threads=4, cpu_workers=1)
    farm = control.up(spec)
    try:
        yield Soak(folder, farm.redis_url)
    finally:
        control.down(folder / "farm")


def make_runs(soak: Soak, count: int, seconds: float) -> Iterator[str]:
    """Runs spread over the time; yields "" or the reason of a failure, for each.  Begins none after twice the time."""
    started = time.monotonic()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        waiting: list[Future[str]] = []
        for number in range(count):
            due = started + seconds * number / count
            if time.monotonic() - started > 2 * seconds:
                break
            time.sleep(max(0.0, due - time.monotonic()))  # runs are spread over the time
            at_once = (number // TURN) % 2 == 1
            waiting.append(pool.submit(soak.run, number))
            if not at_once or len(waiting) == AT_ONCE:
                yield from (done.result() for done in waiting)
                waiting = []
        yield from (done.result() for done in waiting)


def rows_of(series: Mapping[tuple[str, str], Series], seconds: float) -> Iterator[tuple[list[str], bool]]:
    """A row of the table for each series, and whether it is flat."""
    for (kind, name), one in sorted(series.items()):
        at, values = one.second_half(seconds)
        if not len(values):
            continue
        risen, bound = rise(at, values), BOUNDS[kind].of(float(np.median(values)))
        cells = [f"{kind} {name}".strip(), f"{one.values[0]:.1f}", f"{values[0]:.1f}", f"{values[-1]:.1f}"]
        is_flat = risen <= bound
        yield [*cells, f"{max(one.values):.1f}", f"{risen:+.1f}", f"{bound:.1f}", "yes" if is_flat else "NO"], is_flat


def soak(minutes: float, runs: int, keep: bool) -> bool:
    """Returns whether all runs finished and all series are flat."""
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    seconds = minutes * 60
    try:
        with running_farm(folder) as farm:
            warm = farm.run(900)  # the model is loaded, and the vocabulary clustered
            with Sampler(farm.farm, farm.url, max(1.0, seconds / SAMPLES)) as sampler:
                ended = list(make_runs(farm, runs, seconds))
                took = time.monotonic() - sampler.started
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
    failures = [reason for reason in (warm, *ended) if reason]
    rows = list(rows_of(sampler.series, took))
    head = ["series", "start", "middle", "end", "most", "rise", "bound", "flat"]
    print(table(head, [row for row, _ in rows]))
    print(f"{len(ended)} of {runs} runs in {took / 60:.1f} min, {len(failures)} failed")
    print("\n".join(failures))
    flat = all(is_flat for _, is_flat in rows)
    figures = [dict(zip(head, row, strict=True)) for row, _ in rows]
    write("soak", {"minutes": round(took / 60, 1), "runs": len(ended), "failures": failures, "series": figures})
    return flat and not failures and len(ended) == runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--runs", type=int, help="how many (default: 40 in an hour)")
    parser.add_argument("--keep", action="store_true", help="leave the farm's folder")
    options = parser.parse_args()
    runs = options.runs or max(4, round(40 * options.minutes / 60))
    sys.exit(0 if soak(options.minutes, runs, options.keep) else 1)


if __name__ == "__main__":
    main()
