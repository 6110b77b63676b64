"""How quickly the command line answers, and what each kind of process of a run takes at its peak.

Runs `orchestrator --help` twenty times beside `python -c pass`, then a small evolution on the embedded farm, reading
the resident memory of every process as it goes.  Wanted: help under 0.4 s; orchestrator, openai and cpu processes
under 200 MB.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil
from figures import table, write

ROOT = Path(__file__).parents[1]
ORCHESTRATOR = [sys.executable, "-m", "orchestrator"]
SMALL = {
    "DATA_PATH": str(ROOT / "configs/data/sample.jsonl"),
    "TRAINING": "0-3",
    "VALIDATION": "",
    "TEST": "",
    "TARGET_MAX_NEW_TOKENS": "16",
    "NGEN": "1",
}
KINDS = (
    ("workers.embedded.supervisor", "supervisor"),
    ("workers.embedded.target", "target server"),
    ("workers.embedded.endpoint", "endpoint"),
    ("valkey-server", "valkey"),
    ("tasks.gpu.cluster", "clustering"),
    ("-m workers gpu", "gpu worker"),
    ("-m workers openai", "openai worker"),
    ("-m workers cpu", "cpu worker"),
    ("-m orchestrator", "orchestrator"),
)
LIMITED = ("orchestrator", "openai worker", "cpu worker")
LIMIT_MB, HELP_S = 200.0, 0.4


def help_seconds(rounds: int = 20) -> dict[str, float]:
    """Medians of alternating rounds."""
    commands = {"orchestrator --help": [*ORCHESTRATOR, "--help"], "python -c pass": [sys.executable, "-c", "pass"]}
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            started = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            seconds[name].append(time.perf_counter() - started)
    return {name: statistics.median(values) for name, values in seconds.items()}


def peaks(folder: Path) -> dict[str, float]:
    """The largest resident memory of one process of each kind, in MB, during a small run."""
    # Clusters of its own: where another run has left some, the vocabulary is not embedded again.
    options = {**SMALL, "FARM_DIR": str(folder / "farm")}
    sets = [part for name, value in options.items() for part in ("--set", f"{name}={value}")]
    config = ["--config", str(ROOT / "configs/embedded.config"), "--output", str(folder / "output"), "--fresh"]
    process = subprocess.Popen([*ORCHESTRATOR, "evolve", *config, *sets], stdout=subprocess.DEVNULL)
    found: dict[str, float] = {}
    pause = threading.Event()
    while process.poll() is None:
        for one in psutil.process_iter():
            kind = kind_of(one, str(folder))
            if kind is not None:
                try:
                    found[kind] = max(found.get(kind, 0.0), one.memory_info().rss / 1e6)
                except psutil.NoSuchProcess:
                    continue
        pause.wait(0.1)
    if process.returncode != 0:
        sys.exit(f"the run ended with {process.returncode}")
    return found


def kind_of(process: psutil.Process, folder: str) -> str | None:
    try:
        line = " ".join(process.cmdline())
        if not any(folder in text for text in (line, process.cwd(), *process.environ().values())):
            return None
    except psutil.Error:
        return None
    return next((kind for part, kind in KINDS if part in line), None)


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    seconds = help_seconds()
    print(table(["command", "median s"], [[name, f"{s:.3f}"] for name, s in seconds.items()]), "\n")
    with tempfile.TemporaryDirectory() as folder:
        found = peaks(Path(folder))
    print(
        table(["process", "peak MB"], [[kind, f"{mb:.0f}"] for kind, mb in sorted(found.items(), key=lambda p: -p[1])])
    )
    write("footprint", {"help_seconds": seconds, "peak_mb": found})
    too_large = [kind for kind in LIMITED if found.get(kind, 0.0) > LIMIT_MB]
    slow = seconds["orchestrator --help"] > HELP_S
    print(
        f"over {LIMIT_MB:.0f} MB: {', '.join(too_large) or 'none'}; help within {HELP_S} s: {'no' if slow else 'yes'}"
    )
    sys.exit(1 if too_large or slow else 0)


if __name__ == "__main__":
    main()
