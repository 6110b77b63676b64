"""Whether a farm keeps its server full while several searches run side by side, from the first generation to the last.

Real orchestrators, Valkey and workers, and a simulated server (`simulated_target.py`) whose answers are as long as
those to GSM8K.  The rate is in tokens a second, relative to what the server can give, from the end of the last first
generation to the first end of a search; late over early compares the second half of that time with the first.  For each
half: mean requests in flight, and CPU milliseconds of each kind of process an answer.

`python benchmarks/several_runs.py [--runs 3] [--generations 6] [--questions 20] [--population 12] [--rows 256]`
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
from figures import table, write
from full_card import simulated_server
from simulated_target import Simulation

from workers.embedded import control
from workers.embedded.farm import FarmSpec

CONFIG = Path(__file__).parents[1] / "configs" / "gpu.config"
SAMPLE_S = 0.25
CPU_S = 5.0  # between two looks at the CPU time of all processes
MEDIAN, SIGMA, CAP = 280.0, 0.5, 512
WANTED = 0.9  # late over early


@dataclass(frozen=True)
class Sample:
    """What the server has given at a moment (`at`, in seconds since 1970), and the CPU seconds of each kind of process
    so far, where it was read.
    """

    at: float
    tokens: int
    answers: int
    in_flight: int
    cpu: Mapping[str, float] | None


@dataclass
class Sampler:
    """Samples of the server and of all processes in `folder`, until the block ends."""

    url: str
    folder: Path
    runs: Sequence[Path]
    samples: list[Sample] = field(default_factory=list)
    began: float = 0.0  # when the first generation of the last run had ended, in seconds since 1970

    def __enter__(self) -> Sampler:
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _sample(self) -> None:
        with httpx.Client(trust_env=False) as http:
            for number in itertools.count():
                cpu = cpu_seconds(self.folder) if number % round(CPU_S / SAMPLE_S) == 0 else None
                stats = http.get(f"{self.url}/stats").json()
                self.samples.append(Sample(time.time(), stats["tokens"], stats["answers"], stats["in_flight"], cpu))
                if not self.began and all((run / "evolution_state.json").exists() for run in self.runs):
                    self.began = time.time()
                if self._ended.wait(SAMPLE_S):
                    return


def cpu_seconds(folder: Path) -> dict[str, float]:
    """CPU seconds by kind of process, of all that have the folder in their command line or environment."""
    found: Counter[str] = Counter()
    for process in psutil.process_iter():
        try:
            line = process.cmdline()
            if str(folder) in " ".join([*line, *process.environ().values()]):
                found[kind_of(line)] += sum(process.cpu_times()[:2])
        except psutil.Error:
            continue
    return dict(found)


def kind_of(command: Sequence[str]) -> str:
    line = " ".join(command)
    kinds = {"workers gpu": "gpu worker", "workers cpu": "cpu worker", "workers openai": "openai worker"}
    kinds |= {"orchestrator evolve": "orchestrator", "valkey-server": "Valkey"}
    return next((kind for part, kind in kinds.items() if part in line), "other")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--optimisers", nargs="+", default=["cma", "random"])
    parser.add_argument("--generations", type=int, default=6)
    parser.add_argument("--population", type=int, default=12)
    parser.add_argument("--questions", type=int, default=20)
    parser.add_argument("--rows", type=int, default=256, help="requests that the server answers at once")
    parser.add_argument("--token-s", type=float, default=0.027, help="seconds of a token on the simulated server")
    options = parser.parse_args()
    simulation = Simulation(options.token_s, options.rows, MEDIAN, SIGMA)
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        url = stack.enter_context(simulated_server(simulation))
        data = write_questions(folder / "questions.jsonl", options.questions)
        spec = FarmSpec(str(folder / "farm"), gpu_slots=256, log_level="WARNING")
        farm = stack.enter_context(control.start(spec))
        outputs = [folder / str(number) for number in range(options.runs)]
        with Sampler(url, folder, outputs) as sampler:
            runs = [start(options, folder, number, data, farm.redis_url, url) for number in range(options.runs)]
            codes = [run.wait() for run in runs]
        if any(codes):
            print((folder / "0.log").read_text(), file=sys.stderr)
            return 1
        ended = min((output / "evolution_state.json").stat().st_mtime for output in outputs)
    return conclude(options, halves(sampler.samples, sampler.began, ended))


def write_questions(path: Path, training: int) -> Path:
    """Questions as long as those of GSM8K; half of the answers are right by chance."""
    drawn = random.Random(7)
    sets = {"train": training, "validation": 2 * training, "test": training}
    with path.open("w") as file:
        for split, count in sets.items():
            for number in range(count):
                text = " ".join(drawn.choices(["apples", "and", "each", "of", "them", "has", "more", "than"], k=60))
                row = {"id": f"{split}{number}", "question": f"{number} {text}?", "answer": "1", "split": split}
                file.write(json.dumps(row) + "\n")
    return path


def start(
    options: argparse.Namespace, folder: Path, number: int, data: Path, redis_url: str, url: str
) -> subprocess.Popen[bytes]:
    settings = {
        "FARM": "external", "REDIS_URL": redis_url, "DATA_PATH": data,
        "TRAINING_SPLIT": "train", "TRAINING_INDICES": f"0-{options.questions - 1}",
        "VALIDATION_SPLIT": "validation", "VALIDATION_INDICES": "", "TEST_SPLIT": "test", "TEST_INDICES": "",
        "JUDGE": "exact_number", "TARGET_MODEL": "embedded", "TARGET_ENGINE": "sglang", "DEVICE": "cpu",
        "SGLANG_URL": url, "SGLANG_ARGS": "", "TARGET_CONCURRENCY": options.rows, "GPU_SLOTS": 256,
        "TARGET_MAX_NEW_TOKENS": CAP, "CLUSTERS_DIR": folder / "clusters", "EMBEDDER_MODEL": "embedded",
        "CLUSTERS_BY": "waste", "INITIAL_DELTAS_PATH": "zero", "OBJECTIVE": "constrained", "RACING": "off",
        "OPTIMISER": options.optimisers[number % len(options.optimisers)], "STEP_SIZE": "1.5",
        "POPULATION_SIZE": options.population, "NGEN": options.generations, "SEED": number + 1, "PROMPTS_RACED": "n",
    }  # fmt: skip
    sets = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    output = ["--output", str(folder / str(number)), "--plain"]
    with (folder / f"{number}.log").open("w") as log:
        command = [sys.executable, "-m", "orchestrator", "evolve", "--config", str(CONFIG), *sets, *output]
        return subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, env={**os.environ, "SGLANG_API_KEY": "x"}
        )


def halves(samples: Sequence[Sample], began: float, ended: float) -> Iterator[list[Sample]]:
    middle = (began + ended) / 2
    for first, last in ((began, middle), (middle, ended)):
        yield [sample for sample in samples if first <= sample.at <= last]


def conclude(options: argparse.Namespace, parts: Iterator[list[Sample]]) -> int:
    figures = {name: figures_of(samples) for name, samples in zip(("early", "late"), parts, strict=True)}
    full = options.rows / options.token_s
    rows = [
        [
            name,
            f"{part['seconds']:.0f}",
            f"{part['tokens_a_second']:.0f}",
            f"{part['tokens_a_second'] / full:.3f}",
            f"{part['in_flight']:.0f}",
            *(f"{kind} {ms:.1f}" for kind, ms in part["cpu_ms_an_answer"].items()),
        ]
        for name, part in figures.items()
    ]
    kinds = len(rows[0]) - 5
    print(table(["half", "s", "tokens/s", "of full", "in flight", *["CPU ms an answer", *[""] * kinds][:kinds]], rows))
    ratio = figures["late"]["tokens_a_second"] / figures["early"]["tokens_a_second"]
    print(f"late over early {ratio:.3f} (wanted: at least {WANTED})")
    write("several_runs", {"options": vars(options), "full": full, **figures, "late_over_early": ratio})
    return 0 if ratio >= WANTED else 1


def figures_of(samples: Sequence[Sample]) -> dict[str, Any]:
    """The figures of one half."""
    first, last = samples[0], samples[-1]
    seconds, answers = last.at - first.at, last.answers - first.answers
    cpus = [sample for sample in samples if sample.cpu is not None]
    counted = cpus[-1].answers - cpus[0].answers
    used = {kind: cpus[-1].cpu[kind] - cpus[0].cpu.get(kind, 0.0) for kind in cpus[-1].cpu}
    return {
        "seconds": seconds,
        "answers": answers,
        "tokens_a_second": (last.tokens - first.tokens) / seconds,
        "in_flight": sum(sample.in_flight for sample in samples) / len(samples),
        "cpu_ms_an_answer": {kind: round(1000 * value / counted, 2) for kind, value in sorted(used.items())},
    }


if __name__ == "__main__":
    sys.exit(main())
