"""Runs of `route` on the gpu queue: whole, killed, without a store, failed, cancelled, and gone on with."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
import yaml
from farm_bench import until
from route_values import SHIPPED, route_values
from small_model import make_small_model

from orchestrator import console
from orchestrator.runs.status import run_status

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[3]
STEPS, SEEDS = 12, [0, 1, 2]  # some seconds of training each
MOMENTS = int(os.environ.get("WHETSTONE_KILL_MOMENTS", "2"))
SAME = ("plan.json", "evaluation.jsonl", "comparison.json", "report.md", "hack_solve.png", "bands.png")


@dataclass(frozen=True)
class Bench:
    """A folder with one run, and its farm."""

    folder: Path
    model: Path

    @property
    def farm(self) -> Path:
        return self.folder / "farm"

    @property
    def output(self) -> Path:
        return self.folder / "outputs" / "run"

    def start(self, jobs: int = 2) -> subprocess.Popen[bytes]:
        problems = [json.loads(line) for line in (SHIPPED / "problems.jsonl").read_text().splitlines()]
        few = [each for each in problems if each["level"] == 1 or each["part"] == "pairs"]  # all of them are graded
        (self.folder / "problems.jsonl").write_text("\n".join(map(json.dumps, few)))
        changes = {
            "model.model_name_or_path": str(self.model), "data.problems": str(self.folder / "problems.jsonl"),
            "training.seeds": SEEDS, "training.steps": STEPS, "training.levels": [1], "training.prompts": 2,
            # the teacher's rows stay, for random weights write no program
            "training.group": 4, "training.teacher_rows": 2, "training.teacher_off_step": 99,
            "evaluation.modes": ["sentinel"], "evaluation.samples": 2, "routing.refresh_every": 99,
        }  # fmt: skip
        config = self.folder / "run.yaml"
        config.write_text(yaml.safe_dump(route_values(self.folder, changes)))
        command = ["route", "--config", str(config), "--farm-dir", str(self.farm), "--gpu-jobs", str(jobs)]
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen([sys.executable, "-m", "orchestrator", *command], stdout=log, stderr=log, cwd=ROOT)

    def said(self, command: str) -> str:
        """What a command on the run prints that ends with 0."""
        line = [sys.executable, "-m", "orchestrator", command, str(self.output)]
        done = subprocess.run(line, capture_output=True, text=True, cwd=ROOT, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def trained(self) -> int:
        """Steps of training."""
        return run_status(self.output).done if (self.output / "journal.jsonl").exists() else 0

    def processes(self, part: str = "") -> list[psutil.Process]:
        """The command, its farm, and the children that compute for it, or those with this part in their command."""
        found = []
        for process in psutil.process_iter():
            try:
                line, farm = process.cmdline(), process.environ().get("WHETSTONE_FARM", "")
            except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
                continue
            if any(each.startswith(str(self.farm)) for each in (farm, *line)) and (part in line or not part):
                found.append(process)
        return found

    def results(self) -> dict[str, bytes]:
        """What must be the same, byte for byte."""
        paths = [self.output / name for name in SAME]
        for part in ("rows", "checkpoints"):
            paths += (self.output / part).iterdir()
        return {str(path.relative_to(self.output)): path.read_bytes() for path in paths}


@pytest.fixture(scope="module")
def undisturbed(confinement: None, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    folder = tmp_path_factory.mktemp("undisturbed")
    bench = Bench(folder, make_small_model(folder / "model"))  # one for all runs: the plan has its path
    assert bench.start().wait() == console.DONE, bench.log()
    return bench


@pytest.fixture
def own(undisturbed: Bench, tmp_path: Path) -> Bench:
    return Bench(tmp_path, undisturbed.model)


def test_a_run_ends_with_all_its_files(undisturbed: Bench) -> None:
    folder, status = undisturbed.output, run_status(undisturbed.output)
    assert (status.state, status.done, status.total) == ("finished", len(SEEDS) * STEPS, len(SEEDS) * STEPS)
    assert "As registered in plan.json" in (folder / "report.md").read_text()
    rows = [json.loads(line) for line in (folder / "rows" / "shared_seed0.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == list(range(STEPS))
    assert len((folder / "evaluation.jsonl").read_text().splitlines()) == len(SEEDS) * 6


@pytest.mark.parametrize("moment", range(MOMENTS))
def test_whatever_is_killed_the_files_come_out_the_same(undisturbed: Bench, own: Bench, moment: int) -> None:
    # Given a run that has trained so far, each time another share, and trains on or evaluates
    running, trained = own.start(), random.Random(moment).uniform(0.0, len(SEEDS) * STEPS)
    until(lambda: own.trained() >= trained, 600)
    # When the gpu worker or the command is killed, and the command is started again where it ended
    if moment % 2:
        running.send_signal(signal.SIGKILL)
    else:
        until(lambda: [process.kill() for process in own.processes("workers") if "gpu" in process.cmdline()])
    status, starts = running.wait(), 1
    while status != console.DONE and starts < 4:
        status, starts = own.start().wait(), starts + 1
    assert status == console.DONE, own.log()
    # Then all files are the same, and nothing is left
    assert own.results() == undisturbed.results()
    until(lambda: not own.processes())


def test_a_lost_store_is_put_back_from_the_output_folder(undisturbed: Bench, own: Bench) -> None:
    # Given a run that is killed after its first training, and whose farm is lost with the store and the bases
    running = own.start()
    until((own.output / "rows" / "shared_seed0.jsonl").exists, 600)  # what is kept last of a training
    running.kill()
    running.wait()
    until(lambda: not own.processes())
    shutil.rmtree(own.farm)
    # When the command is started again, then all files are the same, and that training was not done again
    assert own.start().wait() == console.DONE, own.log()
    assert own.results() == undisturbed.results()
    received = "".join(path.read_text() for path in (own.farm / "logs").glob("gpu*"))
    assert "stage=evaluate" in received and "child=shared_seed0 stage=train" not in received


@pytest.mark.parametrize("end", ["kill", "cancel"])
def test_a_run_whose_training_is_ended_parks_and_retry_goes_on(undisturbed: Bench, own: Bench, end: str) -> None:
    # Given the first training in its midst
    process = own.start(jobs=1)
    until(lambda: own.trained() >= 3, 600)
    [child] = own.processes("tasks.route.child")
    # When its process is killed, or the run is cancelled
    if end == "kill":
        child.kill()
    else:
        own.said("cancel")
    # Then the run parks, and status says why; after a kill the other trainings have had their turn
    assert process.wait() == console.PARKED, own.log()
    assert "Traceback" not in own.log() and not own.processes("tasks.route.child")
    if end == "kill":
        assert {path.stem for path in (own.output / "rows").iterdir()} == {"shared_seed1", "shared_seed2"}
        said = own.said("failed")
        assert "shared_seed0" in said and "shared_seed1" not in said and "signal 9" in said
    else:
        assert "cancelled" in own.said("status")
    # and it ends as if nothing had happened when it is retried
    own.said("retry")
    assert own.results() == undisturbed.results()
