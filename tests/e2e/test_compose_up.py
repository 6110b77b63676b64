"""`docker compose up` in a fresh clone, and nothing before it; then whatever people do to such a farm (`make compose`).

The tests follow one another on one farm, since each `up` takes a while.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from run_folder import ROOT, SMALL, environment

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(3600),
    pytest.mark.skipif("WHETSTONE_COMPOSE" not in os.environ, reason="`make compose` runs it, with Docker"),
]
RUN = "outputs/compose"


def small_run(output: str, **options: str) -> list[str]:
    """The arguments of a small evolution, changed by `options`; paths begin at the clone, also in a container."""
    chosen = {**SMALL, "DATA_PATH": "configs/data/sample.jsonl", **options}
    return ["evolve", "--output", output, *(part for item in chosen.items() for part in ("--set", "=".join(item)))]


@dataclass(frozen=True)
class ComposeClone:
    """A fresh clone in a folder of its own, whose name is that of its containers."""

    folder: Path

    def __call__(self, *arguments: str) -> str:
        """What a command of Compose prints.  Fails the test when the command fails."""
        status, printed = self.finished("docker", "compose", *arguments)
        assert status == 0, printed
        return printed

    def orchestrator(self, *arguments: str) -> tuple[int, str]:
        """The command on this machine, with the code of the clone."""
        return self.finished(sys.executable, "-m", "orchestrator", *arguments)

    def orchestrator_in_container(self, *arguments: str) -> tuple[int, str]:
        return self.finished("docker", "compose", "run", "--rm", "-T", "orchestrator", *arguments)

    def finished(self, *command: str) -> tuple[int, str]:
        # Of the environment of the tests a new user has nothing.
        own = {name: v for name, v in environment().items() if not name.startswith(("WHETSTONE_", "COMPOSE_"))}
        done = subprocess.run(
            command, cwd=self.folder, env={**own, "PYTHONPATH": str(self.folder)}, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, check=False, timeout=1800,
        )  # fmt: skip
        return done.returncode, done.stdout

    def secret(self, name: str) -> str:
        [path] = (self.folder / "secrets").glob(f"*/{name}")
        return path.read_text().strip()

    def flower(self) -> str:
        return f"http://{self('port', 'flower', '5555').strip()}"

    def remove(self) -> None:
        self.finished("docker", "compose", "down", "--volumes", "--timeout", "20")
        shutil.rmtree(self.folder, ignore_errors=True)


def make_clone(folder: Path) -> ComposeClone:
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
    return ComposeClone(folder)


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ComposeClone]:
    """A fresh clone in which `docker compose up --detach` was run, and nothing else."""
    made = make_clone(tmp_path_factory.mktemp("clones") / f"first-{os.getpid()}")
    try:
        made("build")  # images of other code may be here
        made("up", "--detach")
        yield made
    finally:
        made.remove()


def evolve(clone: ComposeClone, output: str = RUN, **options: str) -> str:
    status, printed = clone.orchestrator(*small_run(output, **options))
    assert status == 0, printed
    return printed


def test_evolve_on_this_machine_finds_the_farm(clone: ComposeClone) -> None:
    printed = evolve(clone)
    assert "no .config: the settings are ops/compose.config" in printed
    assert "rules of the embedded endpoint (no language model)" in printed
    assert (clone.folder / RUN / "processor_best.py").is_file()
    # a container sees the same run, and the repository has no new file
    status, printed = clone.orchestrator_in_container("status", RUN, "--json")
    assert (status, json.loads(printed[printed.index("{") :])["state"]) == (0, "finished")
    assert clone.orchestrator_in_container(*small_run(RUN, NGEN="3"))[0] == 0
    changed = subprocess.run(["git", "status", "--short"], cwd=clone.folder, capture_output=True, text=True, check=True)
    assert changed.stdout == ""


def test_flower_is_for_who_knows_the_password_and_its_pages_show_none(clone: ComposeClone) -> None:
    user, password = clone.secret("flower_basic_auth").split(":", 1)
    with httpx.Client(base_url=clone.flower(), timeout=60, trust_env=False) as client:
        assert client.get("/api/runs").status_code == 401
        client.auth = (user, password)
        assert [run["state"] for run in client.get("/api/runs").json()["runs"]] == ["finished"]
        workers = client.get("/api/workers", params={"refresh": 1}).json()
        pages = ["/", "/broker", "/tasks", "/runs", "/api/runs", "/api/tasks", *(f"/worker/{name}" for name in workers)]
        shown = "".join([json.dumps(workers), clone("logs", "flower"), *(client.get(page).text for page in pages)])
    assert workers and clone.secret("valkey_password") not in shown and password not in shown


def test_after_down_the_farm_goes_on_where_it_was(clone: ComposeClone) -> None:
    password = clone.secret("valkey_password")
    clone("down")
    status, printed = clone.orchestrator("evolve")
    assert status == 1, printed
    clone("up", "--detach")
    assert clone.secret("valkey_password") == password
    evolve(clone, NGEN="4")
    assert evolve(clone, NGEN="4").count("generation 3 finished") == 0, "it is finished"


def test_a_second_clone_beside_it_is_a_farm_of_its_own(clone: ComposeClone) -> None:
    second = make_clone(clone.folder.with_name(f"second-{os.getpid()}"))
    try:
        second("up", "--detach")
        assert second.flower() != clone.flower()
        assert second.secret("valkey_password") != clone.secret("valkey_password")
        status, printed = second.orchestrator_in_container(*small_run(RUN))
        assert status == 0, printed
        evolve(clone, "outputs/beside")
        status, printed = clone.orchestrator("runs", "--json")
        assert status == 0 and str(second.folder) not in printed
    finally:
        second.remove()
    evolve(clone, "outputs/alone")
