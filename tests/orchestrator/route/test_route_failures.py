"""Trainings that fail for good or are cancelled: parked with the reason, red in Flower, and gone on with by `retry`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from farm_bench import until
from route_values import trained_values
from small_model import make_small_model

from orchestrator import console
from orchestrator.runs.status import run_status

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Bench:
    """A folder with the model, and a farm that stays up."""

    folder: Path
    redis_url: str

    def start(self, name: str, *farm: str, **changes: Any) -> subprocess.Popen[str]:
        """`orchestrator route`, on the farm that stays up unless `farm` names another."""
        small = {"training__steps": 12, "routing__splits": ["real"], **changes}
        config = self.folder / f"{name}.yaml"
        config.write_text(yaml.safe_dump(trained_values(self.folder, self.folder / "model", name, **small)))
        where = farm or ("--farm", "external", "--redis-url", self.redis_url)
        return self.orchestrator("route", "--config", str(config), *where)

    def done(self, name: str) -> int:
        """Steps of training."""
        return run_status(self.output(name)).done if (self.output(name) / "journal.jsonl").exists() else 0

    def orchestrator(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "orchestrator", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "WHETSTONE_REDIS_URL": self.redis_url},
        )

    def said(self, *arguments: str) -> str:
        """What a command prints that ends with 0."""
        process = self.orchestrator(*arguments)
        output, _ = process.communicate()
        assert process.returncode == 0, output
        return output

    def output(self, name: str) -> Path:
        return self.folder / "outputs" / name

    def results(self, name: str, seed: int) -> list[bytes]:
        """What training and evaluation of a seed have left."""
        arm, output = f"shared_seed{seed}", self.output(name)
        lines = (output / "evaluation.jsonl").read_bytes().splitlines()
        evaluated = b"\n".join(line for line in lines if json.loads(line)["seed"] == seed)
        made = (f"rows/{arm}.jsonl", f"checkpoints/{arm}.safetensors")
        return [evaluated, *((output / file).read_bytes() for file in made)]

    def children(self) -> list[psutil.Process]:
        """The processes that train or evaluate on the farm that stays up."""
        found = []
        for process in psutil.process_iter():
            try:
                if "tasks.route.child" in process.cmdline() and str(self.folder) in str(process.environ()):
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def card(self) -> str:
        """What the card of the gpu worker does."""
        workers = json.loads(self.said("farm", "workers", "--json"))["workers"]
        [card] = [worker["target"]["card"] for worker in workers if worker["queue"] == "gpu"]
        return str(card)


@pytest.fixture(scope="module")
def bench(confinement: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("failing")
    make_small_model(folder / "model")
    idle = Bench(folder, "")
    where = ("--config", str(ROOT / "configs" / "embedded.config"), "--set", f"FARM_DIR={folder / 'farm'}")
    idle.said("farm", "up", *where)
    try:
        yield Bench(folder, json.loads(idle.said("farm", "status", "--json", *where))["redis_url"])
    finally:
        idle.said("farm", "down", *where)


@pytest.fixture(scope="module")
def undisturbed(bench: Bench) -> str:
    """The name of a run with all seeds, on a farm of its own: equal jobs of one farm are done once."""
    process = bench.start("undisturbed", "--farm-dir", str(bench.folder / "own"), training__seeds=[0, 1, 2])
    assert process.communicate()[0] and process.returncode == console.DONE
    return "undisturbed"


def test_a_training_whose_child_is_killed_parks_the_run_and_retry_goes_on(bench: Bench, undisturbed: str) -> None:
    # Given a training that ends in its midst
    where = ("--farm", "external", "--redis-url", bench.redis_url, "--gpu-jobs", "1")
    process = bench.start("failing", *where, training__seeds=[0, 1])
    until(lambda: bench.done("failing") >= 3, 600)
    bench.children()[0].kill()
    output, _ = process.communicate()
    assert process.returncode == console.PARKED, output
    assert "Traceback" not in output
    # Then the other training has had its turn, and status and failed name this one with its error
    assert (bench.output("failing") / "rows" / "shared_seed1.jsonl").exists()
    run = str(bench.output("failing"))
    for command in ("status", "failed"):
        said = bench.said(command, run)
        assert "shared_seed0" in said and "shared_seed1" not in said and "signal 9" in said, said
    assert bench.card() == ""
    # When it is retried, it ends as if nothing had happened
    bench.said("retry", run)
    for seed in (0, 1):
        assert bench.results("failing", seed) == bench.results(undisturbed, seed)


def test_cancel_ends_the_child_in_mid_training_and_retry_goes_on(bench: Bench, undisturbed: str) -> None:
    # Given a training in its midst
    process = bench.start("cancelled", training__seeds=[2])
    until(lambda: bench.done("cancelled") >= 3, 600)
    assert bench.children() and bench.card() == "computes"
    # When the run is cancelled, then the child ends, and the card is free
    run = str(bench.output("cancelled"))
    bench.said("cancel", run)
    output, _ = process.communicate()
    assert process.returncode == console.PARKED, output
    until(lambda: not bench.children())
    until(lambda: bench.card() == "")
    assert "cancelled" in bench.said("status", run)
    # and retry goes on from the checkpoint
    bench.said("retry", run)
    assert bench.results("cancelled", 2) == bench.results(undisturbed, 2)
