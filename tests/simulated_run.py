"""A driver, and the command `orchestrator evolve`, on a farm of real workers whose stages are simulated."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from orchestrator.farm.connection import FarmConnection, make_sender
from orchestrator.farm.dispatcher import Dispatcher
from orchestrator.farm.work import FarmEvaluator, Request, Scheduler
from tasks.plan import Candidate, Merge, Outcome, Plan
from tasks.records import Clusters, Endpoint, Fitness, JobSpec, Judge, Reflector, Run, Sampling, Target
from tasks.store.address import queues_url, store_url
from tasks.store.client import connect
from tasks.store.keys import content_hash
from tasks.store.store import Store

ROOT = Path(__file__).parents[1]
COMMAND = [sys.executable, "-m", "orchestrator"]
RUN = Run(
    "simulated", 1,
    Target(
        model="m", engine="embedded", device="cpu", ready_timeout_s=1, request_timeout_s=1, prompt_template="",
        sampling=Sampling(1, 0, 1, 1),
    ),
    Judge("m", 0.01, True, 0, 1, 1, 1, 1), Reflector("m", 0, 1, 1, 1), Endpoint("", "K", 1, 1, 1, 1, 0, 0, 0, 0),
    Fitness(0.4, 0.6, 50), Clusters("", "m", 1, 1, 1, 1, "cpu"), True,
)  # fmt: skip
MERGE = Merge("a", 0.5, "b", 0.5)
PLAN = Plan("offspring", 1, tuple(Candidate(i, (0.0,) * 3, merge=MERGE, target=1) for i in range(3)))


def signal_key(what: str, stage: str, node: str) -> str:
    """The key of a signal: a test sets `hold` or `fail`, which a stage obeys.

    With `vary` of the answers each, their lengths follow from the deltas, the cap of tokens cuts them, and one that the
    store has is not generated again; scores follow from them.  With `thorough`, answers that are too short are wrong.
    A stage counts how often it `began` and `ended`.
    """
    return f"test:{what}:{stage}:{node}"


def request(label: str, task: str = "openai.compress", **arguments: Any) -> Request:
    """A simulated job; what it does is determined by its label."""
    return Request("test:" + content_hash(label), JobSpec(task, label, arguments))


class Driver:
    """An orchestrator that waits for plans and jobs, each in its own thread."""

    def __init__(self, url: str) -> None:
        self.app = make_sender(url)
        self.store = Store(connect(store_url(url)))
        self.broker = connect(queues_url(url))
        self.messages: list[str] = []
        self._threads, self._closing = ThreadPoolExecutor(), threading.Event()
        self.store.put_run(RUN)
        self.store.put_examples(RUN.id, {"training": [], "validation": []})

    def dispatcher(self, retry_wait_s: float = 0, only: tuple[str, ...] = ()) -> Dispatcher:
        farm = FarmConnection(self.app, self.broker, self.store, False, self._check)
        return Dispatcher(farm, RUN.id, 60, retry_wait_s, self.messages.append, only)

    def evaluate(self, plan: Plan = PLAN, retry_wait_s: float = 0, only: tuple[str, ...] = ()) -> Future[list[Outcome]]:
        evaluator = FarmEvaluator(self.dispatcher(retry_wait_s, only), lambda plan, records, failures: None)
        return self._threads.submit(evaluator, plan)

    def schedule(self, *requests: Request, only: tuple[str, ...] = ()) -> Future[list[tuple[Request, dict[str, Any]]]]:
        scheduler = Scheduler(self.dispatcher(only=only))
        for request in requests:
            scheduler.submit(request)
        return self._threads.submit(lambda: list(scheduler.results()))

    def set_signal(self, what: str, stage: str, node: str) -> None:
        self.store.redis.set(signal_key(what, stage, node), 1)

    def clear_signal(self, what: str, stage: str, node: str) -> None:
        self.store.redis.delete(signal_key(what, stage, node))

    def began(self, stage: str, node: str) -> int:
        return int(self.store.redis.get(signal_key("began", stage, node)) or 0)

    def ended(self, stage: str, node: str) -> int:
        return int(self.store.redis.get(signal_key("ended", stage, node)) or 0)

    def _check(self) -> None:
        if self._closing.is_set():
            raise RuntimeError("the test is over")

    def close(self) -> None:
        self._closing.set()
        self._threads.shutdown()
        self.app.close()


def evolve_command(url: str, output: Path, options: Mapping[str, str]) -> list[str]:
    """A run on the farm at `url`: the embedded configuration with other options, by name."""
    sets = [part for name, value in {"FARM": url, **options}.items() for part in ("--set", f"{name}={value}")]
    config = str(ROOT / "configs" / "embedded.config")
    return [*COMMAND, "evolve", "--config", config, "--output", str(output), *sets]


def start_evolve(url: str, output: Path, options: Mapping[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        evolve_command(url, output, options), cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def finish(process: subprocess.Popen[str]) -> str:
    """Wait for the command's end. Returns: what it printed. Raises: AssertionError when it failed."""
    printed, _ = process.communicate(timeout=240)
    assert process.returncode == 0, printed
    return printed
