"""Whole runs of three kinds with real processes: orchestrator, Valkey, workers, target and endpoint."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import psutil
import pytest
import yaml
from dotted_values import with_value
from rules_server import KEY, RulesServer
from spec_checker import artifacts_of

from workers.embedded.models import cache_folder

ROOT = Path(__file__).parents[2]
# Small enough for many runs, large enough for merges, mutations, clones and a validation set.
SMALL = {
    "DATA_PATH": str(ROOT / "configs" / "data" / "sample.jsonl"), "TRAINING": "0-2", "VALIDATION": "16", "TEST": "",
    "PROMPTS_PATH": "", "TARGET_MAX_NEW_TOKENS": "16", "POPULATION_SIZE": "3", "NGEN": "2", "CXPB": "0.6",
    "MUTPB": "0.7", "ELITISM_SIZE": "1", "SELECTION": "tournament", "TOURNAMENT_SIZE": "2", "SEED": "366",
}  # fmt: skip
# Four questions, three samples each: with pairs that are kept and pairs that are not.
COLLECTION = {
    "data.split_ratios": {"train": 0.1, "val": 0.1, "test": 0.8}, "target.max_new_tokens": 24,
    "phase0.verbose_num_samples": 3, "phase0.k": 10, "phase0.target_concurrency": 3,
}  # fmt: skip
MISSIONS = {"cabinet": "Whether the cabinet is wired well.", "panels": "Whether the panels are mounted well."}
# One batch of each mission, eight held-out tickets, two answers to a ticket.  The gate takes what does no harm.
GUIDE = {
    "sampler.samples_per_decode": 1,
    "sampler.grid": [{"temperature": heat, "top_p": 0.95, "max_new_tokens": 33} for heat in (0.0, 1.2)],
    "critic.max_candidates": 1, "reflection.batch_size": 16, "reflection.apply_if_delta": 0.0,
    "holdout.fraction": 0.2, "holdout.min_probability": 0.0, "holdout.max_false_pass_rise": 1.0, "runner.epochs": 1,
    "critic.prompt_path": str(ROOT / "configs" / "guide" / "critic.txt"),
    "reflection.prompt_path": str(ROOT / "configs" / "guide" / "reflection.txt"), "missions": MISSIONS,
}  # fmt: skip
LIMIT_S = 1500.0  # for a command or an event, on a busy machine
# The longest time between an answer of a server and its record in the store, on a busy machine.
UNSTORED_S = 1.0
LOGS = ("target_requests.jsonl", "endpoint_calls.jsonl")  # the second where a test has an endpoint of its own
SERVERS = {
    "target": "workers.embedded.target",
    "valkey": "valkey-server",
    "endpoint": "workers.embedded.endpoint",
    "supervisor": "workers.embedded.supervisor",
}
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

    def state(self) -> str:
        return (self.output / "evolution_state.json").read_text()

    def answered(self, log: str) -> list[str]:
        return [call for call, _ in self.answer_times(log)]

    def answer_times(self, log: str) -> list[tuple[str, float]]:
        """Each rightly answered call with the time of its answer; without a line that a kill cut short."""
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
        """Calls that were answered more than once; those in `twice`, which a calm run repeats, more than twice.

        In each interval of `losses` an answer may have been lost with the process that was to store it: its second
        request is not counted.
        """
        times: dict[str, list[float]] = defaultdict(list)
        for log in LOGS:
            for call, at in self.answer_times(log):
                times[call].append(at)

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


class KindFolder(RunFolder):
    """A run that a YAML file configures: the shipped one, with other values by their dotted names."""

    kind = ""

    @property
    def config(self) -> Path:
        return self.folder / f"{self.kind}.yaml"

    def write(self, changes: Mapping[str, Any]) -> None:
        source = self.config if self.config.exists() else ROOT / "configs" / self.config.name
        values = yaml.safe_load(source.read_text())
        for name, value in changes.items():
            values = with_value(values, name, value)
        self.config.write_text(yaml.safe_dump(values, allow_unicode=True))

    def command(self, *arguments: str, **_: str) -> list[str]:
        farm = ["--config", str(self.config), "--farm-dir", str(self.farm)]
        return [sys.executable, "-m", "orchestrator", self.kind, *farm, *arguments]


class CollectionFolder(KindFolder):
    kind = "collect"
    again = ("--resume",)
    priced = ("--price-prompt", "1000", "--price-cached", "1000", "--price-completion", "0", "--budget", "1")
    budget = "budget_usd"
    state_file = "progress.json"

    @property
    def data(self) -> Path:
        return self.output / "phase0_data.json"

    def configure(self) -> None:
        self.write({**COLLECTION, "output_dir": str(self.output), "phase0.output_path": str(self.data)})

    def ask(self, rules: RulesServer) -> None:
        self.write({"reflector.api_base": rules.url, "phase0.correctness.evaluator_api_base": rules.url})

    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.data.read_text())
        return found

    def result(self) -> dict[str, Any]:
        """The output without its time and its configuration, the only parts in which equal collections differ."""
        found = self.document()
        del found["metadata"]["created_at"], found["metadata"]["config_snapshot"]
        return found


class GuideFolder(KindFolder):
    kind = "guide"
    state_file = "guidance.json"

    def configure(self) -> None:
        tickets, guidance = self.folder / "tickets.jsonl", self.folder / "guidance.json"
        output = {"output.root": str(self.folder), "output.run_id": self.output.name}
        self.write({**GUIDE, **output, "stage_a_paths": [str(tickets)], "guidance.path": str(guidance)})
        tickets.write_text("".join(json.dumps(row) + "\n" for row in ticket_rows()))
        first = {"step": 0, "updated_at": "2026-01-01T00:00:00Z", "experiences": {"G0": "Read every summary."}}
        guidance.write_text(json.dumps(dict.fromkeys(MISSIONS, first)))

    def command(self, *arguments: str, **options: str) -> list[str]:
        return super().command("--rollout-jobs", "8", *arguments, **options)

    def ask(self, rules: RulesServer) -> None:
        self.write({"endpoint.api_base": rules.url, "endpoint.api_key_env": "OPENAI_API_KEY"})

    def result(self) -> dict[str, Any]:
        return artifacts_of(self.output)


def ticket_rows() -> list[dict[str, Any]]:
    """Forty tickets of each mission; a black wire is a fail."""
    return [
        {
            "group_id": f"{name}-{number:02}", "mission": name, "label": "fail" if number % 2 else "pass",
            "per_image": {"image_1": f"unit {number}: the wire is {'black' if number % 2 else 'yellow'}"},
            "stage_a_complete": True,
        }
        for name in MISSIONS
        for number in range(40)
    ]  # fmt: skip


def process_of(run: RunFolder, kind: str) -> psutil.Process | None:
    """The process of the farm of this kind, if there is one."""
    return next((process for process in run.processes() if is_of_kind(process, kind)), None)


def is_of_kind(process: psutil.Process, kind: str) -> bool:
    try:
        line, parent = " ".join(process.cmdline()), process.parent()
        above = " ".join(parent.cmdline()) if parent else ""
    except psutil.Error:
        return False
    if "PR_SET_PDEATHSIG" in line:
        return False  # the wrapper, before it executes the process itself
    if kind in SERVERS:
        return SERVERS[kind] in line
    queue = "cpu" if kind == "pool child" else kind
    is_child = f"-m workers {queue}" in above
    return f"-m workers {queue}" in line and is_child == (kind == "pool child")


def environment() -> dict[str, str]:
    """Ours with the key of a test's endpoint, and nothing that would make a test use the real OpenAI."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("OPENAI_", "WHETSTONE_REDIS"))}
    return {"WHETSTONE_CLUSTERS": str(cache_folder() / "clusters"), **kept, "OPENAI_API_KEY": KEY}


def start(command: list[str]) -> subprocess.Popen[str]:
    # A shell that starts the tests in the background ignores SIGINT, and a child inherits that.
    return subprocess.Popen(
        ["env", "--default-signal=INT", *command], cwd=ROOT, env=environment(), stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


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
