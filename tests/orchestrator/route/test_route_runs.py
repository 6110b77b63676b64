"""Runs of `route` on the gpu queue: whole, killed, without a store, failed, cancelled, and gone on with."""

from __future__ import annotations

import json
import os
import random
import shutil
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
STEPS = 12  # some seconds of training
# What each trajectory routes.
SPLITS = {"shared": {"real", "ceiling", "random_0"}, "plain": set(), "erase": {"erase"}, "ablated": {"real"}}
MOMENTS = int(os.environ.get("WHETSTONE_KILL_MOMENTS", "1"))  # ten with `make faults`
# What is killed, and an argument of its command.
PARTS = {"child": "tasks.route.child", **{f"worker {moment}": "gpu" for moment in range(MOMENTS)}}
ENDS = [*PARTS, *(f"command {moment}" for moment in range(MOMENTS)), "store", "cancel"]
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

    def start(self) -> subprocess.Popen[bytes]:
        problems = [json.loads(line) for line in (SHIPPED / "problems.jsonl").read_text().splitlines()]
        few = [each for each in problems if each["level"] == 1 or each["part"] == "pairs"]  # all of them are graded
        (self.folder / "problems.jsonl").write_text("\n".join(map(json.dumps, few)))
        changes = {
            "model.model_name_or_path": str(self.model), "data.problems": str(self.folder / "problems.jsonl"),
            "training.trajectories": [*SPLITS], "training.seeds": [0], "training.rollout_ablate_frac": 0.25,
            "training.steps": STEPS, "training.levels": [1], "training.prompts": 2,
            # the teacher's rows stay, for random weights write no program
            "training.group": 4, "training.teacher_rows": 2, "training.teacher_off_step": 99,
            "evaluation.modes": ["sentinel"], "evaluation.samples": 2, "routing.refresh_every": 99,
        }  # fmt: skip
        config = self.folder / "run.yaml"
        config.write_text(yaml.safe_dump(route_values(self.folder, changes)))
        command = ["route", "--config", str(config), "--farm-dir", str(self.farm), "--gpu-jobs", "2"]
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


def test_a_run_ends_with_all_its_files(undisturbed: Bench) -> None:
    folder, status = undisturbed.output, run_status(undisturbed.output)
    assert (status.state, status.done, status.total) == ("finished", len(SPLITS) * STEPS, len(SPLITS) * STEPS)
    assert "As registered in plan.json" in (folder / "report.md").read_text()
    for trajectory, splits in SPLITS.items():
        lines = (folder / "rows" / f"{trajectory}_seed0.jsonl").read_text().splitlines()
        assert [json.loads(line)["step"] for line in lines] == list(range(STEPS))
        assert set(json.loads(lines[0])["splits"]) == splits
    evaluated = [json.loads(line) for line in (folder / "evaluation.jsonl").read_text().splitlines()]
    assert [(each["trajectory"], each["deployed"], each["quarantine"]) for each in evaluated] == [
        *(("shared", name, "off") for name in ("none", "untrained", "scaled_0.5", "real", "ceiling", "random_0")),
        *(("plain", "none", "off"), ("erase", "erase", "off"), ("ablated", "real", "off"), ("ablated", "real", "on")),
    ]


@pytest.mark.parametrize("end", ENDS)
def test_whatever_ends_a_run_its_files_come_out_the_same(undisturbed: Bench, tmp_path: Path, end: str) -> None:
    # Given a run that has trained so far, each time another share, and trains on or evaluates
    own, trained = Bench(tmp_path, undisturbed.model), random.Random(end).uniform(1, len(SPLITS) * STEPS - 6)
    running, rows = own.start(), own.output / "rows"
    until(lambda: own.trained() >= trained and (end != "store" or any(rows.glob("*"))), 600)
    kept = [path.stem for path in rows.glob("*")]
    # When a process of it is killed, or it is cancelled, or its farm is lost with the store and the bases
    if end in PARTS:
        until(lambda: [process.kill() for process in own.processes(PARTS[end])])
    elif end == "cancel":
        own.said("cancel")
    else:
        running.kill()
    status = running.wait()
    if end == "store":
        until(lambda: not own.processes())
        shutil.rmtree(own.farm)
    # Then it parks and says why, or the command goes on when it is started again
    if end in ("child", "cancel"):
        assert status == console.PARKED, own.log()
        assert ("signal 9" if end == "child" else "cancelled") in own.said("status")
        own.said("retry")
        status = console.DONE
    while status != console.DONE:
        status = own.start().wait()
    # and all files are the same, no training that the folder had was done again, and nothing is left
    assert "Traceback" not in own.log() and own.results() == undisturbed.results()
    if end == "store":
        received = "".join(path.read_text() for path in (own.farm / "logs").glob("gpu*"))
        assert "stage=train" in received and not [name for name in kept if f"child={name} stage=train" in received]
    until(lambda: not own.processes())
