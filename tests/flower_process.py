"""A real Flower of ours in a process of its own, and a real worker whose tasks it sees."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx

from orchestrator.settings.kconfig import load_settings, write_config
from orchestrator.settings.run import make_run
from tasks.plan import Candidate, Plan
from tasks.store.store import Store
from workers.app import create_app
from workers.processes import ChildProcess, Command
from workers.queues import worker_command

ROOT = Path(__file__).parents[1]
USER, PASSWORD = "somebody", "a long password"
COMMAND = [sys.executable, "-m", "orchestrator", "flower"]


class Flower:
    """`orchestrator flower` on a port of its own; `client` is logged in."""

    def __init__(self, redis_url: str, folder: Path, outputs: Path | None = None) -> None:
        self.redis_url, self.folder, self.outputs = redis_url, folder, outputs or folder / "outputs"
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, "--port", "0", "--outputs", str(self.outputs), "--data", str(self.folder / "data")],
            env={**environment(), "WHETSTONE_REDIS_URL": self.redis_url, "FLOWER_BASIC_AUTH": f"{USER}:{PASSWORD}"},
            cwd=ROOT, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        assert self.url.startswith("http://127.0.0.1:"), self.url
        self.client = httpx.Client(base_url=self.url, auth=(USER, PASSWORD))
        self.stranger = httpx.Client(base_url=self.url)

    def stop(self) -> int:
        self.client.close()
        self.stranger.close()
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20)

    def run(self, run: str) -> dict[str, Any]:
        """What the API says of a run."""
        found: list[dict[str, Any]] = self.client.get("/api/runs").json()["runs"]
        return next(each for each in found if each["run"] == run)

    def row(self, task: str) -> dict[str, Any]:
        """What the list of tasks shows of one."""
        asked = {"draw": 1, "start": 0, "length": 100, "order[0][column]": 0, "order[0][dir]": "asc"}
        asked |= {"columns[0][data]": "name", "search[value]": ""}
        rows: list[dict[str, Any]] = self.client.post("/tasks/datatable", data=asked).json()["data"]
        return next(row for row in rows if row["uuid"] == task)


def environment() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if not k.startswith(("FLOWER_", "WHETSTONE_", "OPENAI_"))}


def cpu_worker(redis_url: str, folder: Path) -> ChildProcess:
    """A worker of the cpu queue; what it is sent waits until it is there."""
    own = {**environment(), "WHETSTONE_REDIS_URL": redis_url}
    worker = ChildProcess(Command("cpu", tuple(worker_command("cpu", "cpu", 1)), folder / "cpu.log", own))
    worker.start()
    return worker


def parked_run(outputs: Path, store: Store, redis_url: str, run: str) -> None:
    """A run that a person would find parked: its folder, its settings, and its plan in the store."""
    folder = outputs / run
    folder.mkdir(parents=True, exist_ok=True)
    settings = load_settings(ROOT / "configs" / "embedded.config", [f"OUTPUT_DIR={folder}", f"FARM={redis_url}"])
    write_config(settings, folder / "config")
    (folder / "run.json").write_text(f'{{"id": "{run}", "kind": "evolve"}}')
    (folder / "parked.json").write_text('{"reason": "score of g0_pop0 failed", "failures": []}')
    store.put_run(make_run(settings, run))
    store.put_plan(run, Plan("population", 0, (Candidate(0, (0.0,) * 12),)))
    store.restore_usage(run, {"requests": 7, "cost_usd": 1.25})


def failing_score(store: Store, redis_url: str, run: str) -> str:
    """Send a score whose answers are not there, which a worker cannot but fail; returns its id."""
    attempt = store.next_attempt(run, "g0_pop")
    with create_app({"WHETSTONE_REDIS_URL": redis_url}) as app:
        return str(app.send_task("cpu.score", args=[run, "g0_pop", 0, "pre", attempt]).id)
