"""Whole runs with real processes: orchestrator, Valkey, workers, target and endpoint."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import psutil
import pytest
from rules_server import KEY, RulesServer

ROOT = Path(__file__).parents[2]
# Small enough for many runs, large enough for merges, mutations, clones and a validation set.
SMALL = {
    "DATA_PATH": str(ROOT / "configs" / "data" / "sample.jsonl"),
    "TRAINING": "0-2",
    "VALIDATION": "16",
    "TEST": "",
    "PROMPTS_PATH": "",
    "TARGET_MAX_NEW_TOKENS": "16",
    "POPULATION_SIZE": "3",
    "NGEN": "2",
    "CXPB": "0.6",
    "MUTPB": "0.7",
    "ELITISM_SIZE": "1",
    "SELECTION": "tournament",
    "TOURNAMENT_SIZE": "2",
    "SEED": "366",
}

LIMIT_S = 1500.0  # for a command or an event, on a busy machine
# The longest time between an answer of a server and its record in the store, on a busy machine.
UNSTORED_S = 1.0
LOGS = ("target_requests.jsonl", "endpoint_calls.jsonl")  # the second where a test has an endpoint of its own
# Files that are equal in equal runs.
SAME_FILES = (
    "evolution_state.json", "individuals.jsonl", "deltas_best.json", "deltas_current.json", "processor.py",
    "processor_best.py", "answers.json", "front.json", "systems.json",
)  # fmt: skip
KILLED_BEFORE_WRITE = """
import os, signal, sys
from orchestrator.cli import main
name = sys.argv.pop(1)
def hook(event, arguments):
    if event == "os.rename" and os.path.basename(os.fsdecode(arguments[1])) == name:
        os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(hook)
sys.exit(main())
"""


def cache_folder() -> Path:
    return Path(os.environ.get("WHETSTONE_CACHE") or Path.home() / ".cache" / "whetstone")


@dataclass
class RunFolder:
    """The folder of one run with its farm, and the processes that were started for them."""

    folder: Path
    options: dict[str, str] = field(default_factory=dict)
    again: ClassVar[tuple[str, ...]] = ()
    """Arguments of a command that goes on with a run."""
    priced: ClassVar[tuple[str, ...]] = ("--set", "OPENAI_PRICES=100 50 5", "--set", "BUDGET_USD=0.3")
    """Arguments with which calls have a price and the run a budget, which is less than it costs."""
    budget: ClassVar[str] = "BUDGET_USD"
    state_file: ClassVar[str] = "evolution_state.json"

    @property
    def output(self) -> Path:
        return self.folder / "output"

    @property
    def farm(self) -> Path:
        return self.folder / "farm"

    def command(self, *arguments: str, **options: str) -> list[str]:
        """`orchestrator evolve` with the small configuration, changed by `options`."""
        chosen = {**SMALL, "FARM_DIR": str(self.farm), **self.options, **options}
        sets = [part for name, value in chosen.items() for part in ("--set", f"{name}={value}")]
        config = ["--config", str(ROOT / "configs" / "embedded.config"), "--output", str(self.output)]
        return [sys.executable, "-m", "orchestrator", "evolve", *config, *sets, *arguments]

    def start(self, *arguments: str, **options: str) -> subprocess.Popen[str]:
        return start(self.command(*arguments, **options))

    def run(self, *arguments: str, **options: str) -> subprocess.CompletedProcess[str]:
        return finish(self.start(*arguments, **options))

    def kill_before_write(self, file: str) -> None:
        """Run a session that kills itself when it would put this file, which is written, in its place."""
        python, _, _, *arguments = self.command()  # behind `python -m orchestrator`
        done = finish(start([python, "-c", KILLED_BEFORE_WRITE, file, *arguments]))
        assert done.returncode == -9, done.stdout
        wait_until(lambda: not self.processes(), "the killed command's farm to end")

    def configure(self) -> None:
        """Write the settings, where the kind has a file of them."""

    def ask(self, rules: RulesServer) -> None:
        """Have the run call this endpoint in place of the farm's."""
        self.options |= rules.options

    def result(self) -> dict[str, Any]:
        """What the run has come to, equal for equal runs."""
        report = json.loads((self.output / "report.json").read_text())
        return {"report": report | {"run": None}} | {name: (self.output / name).read_text() for name in SAME_FILES}

    def history(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.output / "history.jsonl").read_text().splitlines()]

    def state(self) -> str:
        return (self.output / "evolution_state.json").read_text()

    def answered(self, log: str) -> list[str]:
        """The ids of the calls that a server has answered, in order."""
        return [call for call, _ in self.answer_times(log)]

    def answer_times(self, log: str) -> list[tuple[str, float]]:
        """Each rightly answered call with the time of its answer, in seconds since 1970.

        A line of the log that a kill cut short is left out.
        """
        found = list[tuple[str, float]]()
        for path in (self.farm / "logs" / log, self.folder / log):
            for line in path.read_text().splitlines() if path.exists() else ():
                with suppress(ValueError):
                    call = json.loads(line)
                    if call.get("status", 200) == 200 and not call.get("fault"):
                        found.append((str(call.get("call_id") or call["sha256"]), call["at"]))
        return found

    def answers(self) -> int:
        """How many calls the servers have answered."""
        return sum(len(self.answered(log)) for log in LOGS)

    def repeated(self, losses: Sequence[tuple[float, float]] = (), twice: Sequence[str] = ()) -> list[str]:
        """Calls that were answered more than once; those in `twice` more than twice.

        An undisturbed run asks the plain model the questions that order the front twice: its own `repeated` has these.
        In each interval of `losses`, in seconds since 1970, an answer may have been lost with the process that was to
        store it: its second request is not counted.
        """
        times: dict[str, list[float]] = {}
        for log in LOGS:
            for call, at in self.answer_times(log):
                times.setdefault(call, []).append(at)

        def was_lost(at: float) -> bool:
            return any(begin - UNSTORED_S <= at <= end + UNSTORED_S for begin, end in losses)

        return [call for call, at in times.items() if not all(map(was_lost, sorted(at)[: -2 if call in twice else -1]))]

    def processes(self) -> list[psutil.Process]:
        """Processes with the folder in their command line, environment, working directory or open files.

        A farm's endpoint has no more of it than its log.
        """
        needle, found = str(self.folder), []
        for process in psutil.process_iter():
            try:
                files = [file.path for file in process.open_files()]
                text = " ".join([*process.cmdline(), *process.environ().values(), process.cwd(), *files])
            except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
                continue
            if needle in text and process.pid != os.getpid():
                found.append(process)
        return found

    def clear(self) -> None:
        for process in self.processes():
            with suppress(psutil.NoSuchProcess):
                process.kill()


def process_of(run: RunFolder, kind: str) -> psutil.Process | None:
    """The process of the farm of this kind, if there is one."""
    return next((process for process in run.processes() if is_of_kind(process, kind)), None)


def is_of_kind(process: psutil.Process, kind: str) -> bool:
    servers = {
        "target": "workers.embedded.target",
        "valkey": "valkey-server",
        "endpoint": "workers.embedded.endpoint",
        "supervisor": "workers.embedded.supervisor",
    }
    try:
        line, parent = " ".join(process.cmdline()), process.parent()
        above = " ".join(parent.cmdline()) if parent else ""
    except psutil.Error:
        return False
    if "PR_SET_PDEATHSIG" in line:
        return False  # the wrapper, before it executes the process itself
    if kind in servers:
        return servers[kind] in line
    queue = "cpu" if kind == "pool child" else kind
    is_child = f"-m workers {queue}" in above
    return f"-m workers {queue}" in line and is_child == (kind == "pool child")


def environment() -> dict[str, str]:
    """Our environment with the key of a test's endpoint, and nothing that would make a test use the real OpenAI."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("OPENAI_", "WHETSTONE_REDIS"))}
    return {"WHETSTONE_CLUSTERS": str(cache_folder() / "clusters"), **kept, "OPENAI_API_KEY": KEY}


def start(command: list[str]) -> subprocess.Popen[str]:
    # A shell that starts the tests in the background ignores SIGINT, and a child inherits that.
    handler = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen(
            command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
    finally:
        signal.signal(signal.SIGINT, handler)


def finish(process: subprocess.Popen[str]) -> subprocess.CompletedProcess[str]:
    try:
        out, _ = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=60)
        pytest.fail(f"the command took longer than {LIMIT_S} s:\n{out}")
    return subprocess.CompletedProcess(process.args, process.returncode, out, "")


@contextmanager
def farm_up(run: RunFolder, **options: str) -> Iterator[str]:
    """A farm of the embedded configuration that stays up, with these options; gives its address."""
    where = ["--config", str(ROOT / "configs" / "embedded.config"), "--set", f"FARM_DIR={run.farm}"]
    sets = [part for name, value in options.items() for part in ("--set", f"{name}={value}")]
    up = orchestrator("farm", "up", *where, *sets)
    assert up.returncode == 0, up.stdout
    try:
        yield str(json.loads(orchestrator("farm", "status", "--json", *where).stdout)["redis_url"])
    finally:
        down = orchestrator("farm", "down", *where)
    assert down.returncode == 0, down.stdout
    assert run.processes() == []


def orchestrator(*arguments: str) -> subprocess.CompletedProcess[str]:
    return finish(start([sys.executable, "-m", "orchestrator", *arguments]))


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Return when the condition holds; after `LIMIT_S` the test fails."""
    if not until(condition, LIMIT_S):
        pytest.fail(f"not within {LIMIT_S} s: {what}")


def until(condition: Callable[[], object], limit_s: float) -> bool:
    """Wait until the condition holds, which is checked every 50 ms.  Returns whether it came in time."""
    pause, deadline = threading.Event(), time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        pause.wait(0.05)
    return True
