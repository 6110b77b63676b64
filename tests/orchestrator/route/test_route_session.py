"""Runs of `route` on the embedded farm's gpu queue: whole, killed, and retried."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
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

STEPS = 20  # of each of two seeds: some seconds of training
MOMENTS = int(os.environ.get("WHETSTONE_KILL_MOMENTS", "3"))
SAME = ("plan.json", "evaluation.jsonl", "comparison.json", "report.md", "hack_solve.png", "bands.png")
ROOT = Path(__file__).parents[3]


def write_settings(folder: Path, name: str) -> Path:
    values = trained_values(folder, folder.parent / "model", name, training__steps=STEPS)
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(values))
    return path


def command(folder: Path, name: str) -> list[str]:
    config = write_settings(folder, name)
    options = ["--config", str(config), "--farm-dir", str(folder / f"farm-{name}"), "--gpu-jobs", "2"]
    return [sys.executable, "-m", "orchestrator", "route", *options]


def start(folder: Path, name: str) -> subprocess.Popen[bytes]:
    with (folder / f"{name}.log").open("ab") as log:
        return subprocess.Popen(
            command(folder, name), stdout=log, stderr=log, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}
        )


def results(folder: Path) -> dict[str, bytes]:
    """What must be the same, byte for byte."""
    made = {name: (folder / name).read_bytes() for name in SAME}
    return made | {
        str(p.relative_to(folder)): p.read_bytes()
        for part in ("rows", "checkpoints")
        for p in (folder / part).iterdir()
    }


def processes_of(folder: Path, name: str) -> list[psutil.Process]:
    """The command, all processes of the run's farm, and the children that compute for it."""
    farm, found = str(folder / f"farm-{name}"), []
    for process in psutil.process_iter():
        try:
            said = [process.environ().get("WHETSTONE_FARM", ""), *process.cmdline()]
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
        if any(part.startswith(farm) for part in said):
            found.append(process)
    return found


@pytest.fixture(scope="module")
def undisturbed(confinement: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed")
    make_small_model(folder.parent / "model")  # one for all runs: the plan has its path
    assert start(folder, "run").wait() == 0, (folder / "run.log").read_text()
    return folder / "outputs" / "run"


def test_a_run_ends_with_all_its_files(undisturbed: Path) -> None:
    assert kind_of(undisturbed) is KIND
    status = run_status(undisturbed)
    assert (status.state, status.done, status.total) == ("finished", 2 * STEPS, 2 * STEPS)
    assert "As registered in plan.json" in (undisturbed / "report.md").read_text()
    rows = [json.loads(line) for line in (undisturbed / "rows" / "shared_seed0.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == list(range(STEPS))
    assert len((undisturbed / "evaluation.jsonl").read_text().splitlines()) == 2 * 6


@pytest.mark.parametrize("moment", range(MOMENTS))
def test_whatever_is_killed_the_files_come_out_the_same(undisturbed: Path, tmp_path: Path, moment: int) -> None:
    # Given a run that has trained so far, each time another share, and trains on or evaluates
    trained = random.Random(moment).uniform(0.0, 2 * STEPS)
    what = ("child", "worker", "command")[moment % 3]
    running = start(tmp_path, "run")
    until((tmp_path / "outputs" / "run" / "journal.jsonl").exists, 600)
    until(lambda: run_status(tmp_path / "outputs" / "run").done >= trained, 600)
    # When the child, the worker or the command is killed, and the command is started again where it ended
    until(lambda: killed(running, tmp_path, what))
    status = running.wait()
    retries = 0
    while status != 0 and retries < 3:
        retries += 1
        status = start(tmp_path, "run").wait()
    assert status == console.DONE, (tmp_path / "run.log").read_text()
    # Then all files are the same, and nothing is left
    assert results(tmp_path / "outputs" / "run") == results(undisturbed)
    until(lambda: not processes_of(tmp_path, "run"))


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_lost_store_is_put_back_from_the_output_folder(undisturbed: Path, tmp_path: Path, is_kept: bool) -> None:
    # Given a run that is killed after its first training, and whose farm is lost with the store and the bases, and
    # perhaps that training's checkpoint
    output, checkpoint = tmp_path / "outputs" / "run", "shared_seed0.safetensors"
    running = start(tmp_path, "run")
    until((output / "rows" / "shared_seed0.jsonl").exists, 600)  # what is kept last of a training
    running.kill()
    running.wait()
    until(lambda: not processes_of(tmp_path, "run"))
    shutil.rmtree(tmp_path / "farm-run")
    if not is_kept:
        (output / "checkpoints" / checkpoint).unlink()
    # When the command is started again, then all files are the same, and that training was done again without it alone
    assert start(tmp_path, "run").wait() == console.DONE, (tmp_path / "run.log").read_text()
    assert results(output) == results(undisturbed)
    received = "".join(path.read_text() for path in (tmp_path / "farm-run" / "logs").glob("gpu*"))
    assert "stage=evaluate" in received
    assert ("child=shared_seed0 stage=train" in received) is not is_kept


def killed(running: subprocess.Popen[bytes], folder: Path, what: str) -> bool:
    """Whether there was a process of the kind, which is then killed with SIGKILL."""
    if what == "command":
        running.send_signal(signal.SIGKILL)
        return running.returncode is None
    marker = "tasks.route.child" if what == "child" else "workers"
    for process in processes_of(folder, "run"):
        line = process.cmdline()
        if marker in line and (what == "child" or "gpu" in line):
            process.kill()
            return True
    return False
