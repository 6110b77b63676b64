"""Runs of `route` on the gpu queue: whole, killed, without a store, failed, cancelled, and gone on with."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
import yaml
from farm_bench import until
from route_values import trained_values
from small_model import make_small_model

from orchestrator import console
from orchestrator.route.run import KIND
from orchestrator.runs.kinds import kind_of
from orchestrator.runs.status import run_status

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[3]
STEPS, SEEDS = 12, (0, 1, 2)  # some seconds of training each
MOMENTS = int(os.environ.get("WHETSTONE_KILL_MOMENTS", "2"))
SAME = ("plan.json", "evaluation.jsonl", "comparison.json", "report.md", "hack_solve.png", "bands.png")


@dataclass(frozen=True)
class Bench:
    """A folder of runs, and their farm: one of their own, or the one that stays up at `redis_url`."""

    folder: Path
    model: Path
    redis_url: str = ""

    @property
    def farm(self) -> Path:
        return self.folder / "farm"

    def start(self, name: str, seeds: Sequence[int] = SEEDS, jobs: int = 2) -> subprocess.Popen[bytes]:
        values = trained_values(self.folder, self.model, name, training__steps=STEPS, training__seeds=[*seeds])
        config = self.folder / f"{name}.yaml"
        config.write_text(yaml.safe_dump(values))
        own = ("--farm-dir", str(self.farm))
        farm = ("--farm", "external", "--redis-url", self.redis_url) if self.redis_url else own
        with (self.folder / "log").open("ab") as log:
            command = self.command("route", "--config", str(config), *farm, "--gpu-jobs", str(jobs))
            return subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT, env=self.environment())

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "orchestrator", *arguments]

    def environment(self) -> dict[str, str]:
        address = {"WHETSTONE_REDIS_URL": self.redis_url} if self.redis_url else {}
        return {**os.environ, "PYTHONPATH": str(ROOT), **address}

    def said(self, *arguments: str) -> str:
        """What a command prints that ends with 0."""
        done = subprocess.run(
            self.command(*arguments), capture_output=True, text=True, cwd=ROOT, env=self.environment(), check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def output(self, name: str = "run") -> Path:
        return self.folder / "outputs" / name

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def trained(self, name: str = "run") -> int:
        """Steps of training."""
        return run_status(self.output(name)).done if (self.output(name) / "journal.jsonl").exists() else 0

    def processes(self, module: str = "") -> list[psutil.Process]:
        """The commands on this farm, its own processes, and the children that compute for it."""
        found = []
        for process in psutil.process_iter():
            try:
                line, farm = process.cmdline(), process.environ().get("WHETSTONE_FARM", "")
            except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
                continue
            if any(part.startswith(str(self.farm)) for part in (farm, *line)) and (module in line or not module):
                found.append(process)
        return found

    def card(self) -> str:
        """What the card of the gpu worker does."""
        workers = json.loads(self.said("farm", "workers", "--json"))["workers"]
        [card] = [worker["target"]["card"] for worker in workers if worker["queue"] == "gpu"]
        return str(card)


def results(folder: Path) -> dict[str, bytes]:
    """What must be the same, byte for byte."""
    paths = [folder / name for name in SAME] + [
        path for part in ("rows", "checkpoints") for path in (folder / part).iterdir()
    ]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def results_of(folder: Path, seed: int) -> list[bytes]:
    """What training and evaluation of a seed have left."""
    lines = [
        line for line in (folder / "evaluation.jsonl").read_bytes().splitlines() if json.loads(line)["seed"] == seed
    ]
    made = (f"rows/shared_seed{seed}.jsonl", f"checkpoints/shared_seed{seed}.safetensors")
    return [*lines, *((folder / file).read_bytes() for file in made)]


@pytest.fixture(scope="module")
def undisturbed(confinement: None, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    folder = tmp_path_factory.mktemp("undisturbed")
    bench = Bench(folder, make_small_model(folder / "model"))  # one for all runs: the plan has its path
    assert bench.start("run").wait() == console.DONE, bench.log()
    return bench


@pytest.fixture
def own(undisturbed: Bench, tmp_path: Path) -> Bench:
    return Bench(tmp_path, undisturbed.model)


@pytest.fixture(scope="module")
def shared(undisturbed: Bench, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """With a farm that stays up."""
    idle = Bench(tmp_path_factory.mktemp("shared"), undisturbed.model)
    where = ("--config", str(ROOT / "configs" / "embedded.config"), "--set", f"FARM_DIR={idle.farm}")
    idle.said("farm", "up", *where)
    try:
        yield Bench(idle.folder, idle.model, json.loads(idle.said("farm", "status", "--json", *where))["redis_url"])
    finally:
        idle.said("farm", "down", *where)


def test_a_run_ends_with_all_its_files(undisturbed: Bench) -> None:
    folder = undisturbed.output()
    assert kind_of(folder) is KIND
    status, steps = run_status(folder), len(SEEDS) * STEPS
    assert (status.state, status.done, status.total) == ("finished", steps, steps)
    assert "As registered in plan.json" in (folder / "report.md").read_text()
    rows = [json.loads(line) for line in (folder / "rows" / "shared_seed0.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == list(range(STEPS))
    assert len((folder / "evaluation.jsonl").read_text().splitlines()) == len(SEEDS) * 6


@pytest.mark.parametrize("moment", range(MOMENTS))
def test_whatever_is_killed_the_files_come_out_the_same(undisturbed: Bench, own: Bench, moment: int) -> None:
    # Given a run that has trained so far, each time another share, and trains on or evaluates
    running, trained = own.start("run"), random.Random(moment).uniform(0.0, len(SEEDS) * STEPS)
    until(lambda: own.trained() >= trained, 600)
    # When the gpu worker or the command is killed, and the command is started again where it ended
    if moment % 2:
        running.send_signal(signal.SIGKILL)
    else:
        until(lambda: [process.kill() for process in own.processes("workers") if "gpu" in process.cmdline()])
    status, starts = running.wait(), 1
    while status != console.DONE and starts < 4:
        status, starts = own.start("run").wait(), starts + 1
    assert status == console.DONE, own.log()
    # Then all files are the same, and nothing is left
    assert results(own.output()) == results(undisturbed.output())
    until(lambda: not own.processes())


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_lost_store_is_put_back_from_the_output_folder(undisturbed: Bench, own: Bench, is_kept: bool) -> None:
    # Given a run that is killed after its first training, and whose farm is lost with the store and the bases, and
    # perhaps that training's checkpoint
    running = own.start("run")
    until((own.output() / "rows" / "shared_seed0.jsonl").exists, 600)  # what is kept last of a training
    running.kill()
    running.wait()
    until(lambda: not own.processes())
    shutil.rmtree(own.farm)
    if not is_kept:
        (own.output() / "checkpoints" / "shared_seed0.safetensors").unlink()
    # When the command is started again, then all files are the same, and that training was done again without it alone
    assert own.start("run").wait() == console.DONE, own.log()
    assert results(own.output()) == results(undisturbed.output())
    received = "".join(path.read_text() for path in (own.farm / "logs").glob("gpu*"))
    assert "stage=evaluate" in received
    assert ("child=shared_seed0 stage=train" in received) is not is_kept


def test_a_training_whose_child_is_killed_parks_the_run_and_retry_goes_on(undisturbed: Bench, shared: Bench) -> None:
    # Given a training that ends in its midst
    process = shared.start("failing", seeds=[0, 1], jobs=1)
    until(lambda: shared.trained("failing") >= 3, 600)
    shared.processes("tasks.route.child")[0].kill()
    assert process.wait() == console.PARKED, shared.log()
    assert "Traceback" not in shared.log()
    # Then the other training has had its turn, and status and failed name this one with its error
    output = shared.output("failing")
    assert (output / "rows" / "shared_seed1.jsonl").exists()
    for command in ("status", "failed"):
        said = shared.said(command, str(output))
        assert "shared_seed0" in said and "shared_seed1" not in said and "signal 9" in said, said
    assert shared.card() == ""
    # When it is retried, it ends as if nothing had happened
    shared.said("retry", str(output))
    for seed in (0, 1):
        assert results_of(output, seed) == results_of(undisturbed.output(), seed)


def test_cancel_ends_the_child_in_mid_training_and_retry_goes_on(undisturbed: Bench, shared: Bench) -> None:
    # Given a training in its midst
    process, output = shared.start("cancelled", seeds=[2]), shared.output("cancelled")
    until(lambda: shared.trained("cancelled") >= 3, 600)
    assert shared.processes("tasks.route.child") and shared.card() == "computes"
    # When the run is cancelled, then the child ends, and the card is free
    shared.said("cancel", str(output))
    assert process.wait() == console.PARKED, shared.log()
    until(lambda: not shared.processes("tasks.route.child"))
    until(lambda: shared.card() == "")
    assert "cancelled" in shared.said("status", str(output))
    # and retry goes on from the checkpoint
    shared.said("retry", str(output))
    assert results_of(output, 2) == results_of(undisturbed.output(), 2)
