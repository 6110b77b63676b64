"""Guided runs with real processes: what they leave follows from the specification, and equal runs are equal."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from equal_runs import artifacts_of
from guide_folder import MISSIONS, GuideFolder, ticket_rows
from run_folder import ROOT, environment, orchestrator, wait_until
from spec_checker import SpecChecker

from tasks.store.address import ENVIRONMENT_VARIABLE
from workers.embedded.farm import FARM_VARIABLE
from workers.embedded.valkey import redis_url, socket_path
from workers.health import worker_answers
from workers.queues import worker_command

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


def test_all_that_a_run_leaves_is_what_the_specification_makes_of_the_answers(reference_guide: GuideFolder) -> None:
    gates = set()
    for name in MISSIONS:
        folder = reference_guide.output / name
        tickets = [row for row in ticket_rows() if row["mission"] == name]
        checker = SpecChecker(folder, name, reference_guide.settings(), tickets)
        assert checker.check() == []
        gates |= {line["gate"] for line in reference_guide.lines(name, "reflection.jsonl")}
    assert gates <= {"applied", "uplift", "probability", "false_pass"}, "each proposal came to its preview"


def test_a_second_run_with_three_gpu_workers_is_the_same(reference_guide: GuideFolder, guided: GuideFolder) -> None:
    with gpu_workers(guided, 3):
        done = guided.run(timeout=900)
        assert done.returncode == 0, done.stdout
    assert artifacts_of(guided.output) == artifacts_of(reference_guide.output)
    assert guided.repeated() == []
    assert guided.processes() == []


@contextmanager
def gpu_workers(guided: GuideFolder, number: int) -> Iterator[None]:
    """A farm that is up, with so many gpu workers, each with a target of its own."""
    farm = ["--config", str(ROOT / "configs" / "embedded.config"), "--set", f"FARM_DIR={guided.farm}"]
    up = orchestrator("farm", "up", *farm)
    assert up.returncode == 0, up.stdout
    url = redis_url(socket_path(guided.farm))
    own = environment() | {ENVIRONMENT_VARIABLE: url, FARM_VARIABLE: str(guided.farm)}
    with ExitStack() as stack:
        stack.callback(orchestrator, "farm", "down", *farm)
        for name in [f"gpu{count}" for count in range(2, number + 1)]:
            log = stack.enter_context((guided.farm / "logs" / f"{name}.log").open("wb"))
            worker = subprocess.Popen(worker_command("gpu", name, 4), cwd=ROOT, env=own, stdout=log, stderr=log)
            stack.callback(worker.wait, 60)
            stack.callback(worker.terminate)
            wait_until(lambda n=name: worker_answers(url, n), f"the worker {name}", 60)
        yield
