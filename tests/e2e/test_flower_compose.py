"""In containers: `docker compose up`, an evolution whose reflector fails, Retry on Flower's page, the same final state.

It builds all images and takes minutes; WHETSTONE_COMPOSE=1 runs it.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from flower_browser import browsing, picture
from run_folder import ROOT, SMALL, wait_until

pytestmark = pytest.mark.long
FAULTY = """\
services:
  rules:
    command: [--host, 0.0.0.0, --port, "8000", --faults, "mutation:quota:1"]
"""


@dataclass(frozen=True)
class Compose:
    """The compose file in a new clone, with its own project name, secrets and port."""

    folder: Path
    port: int

    def __call__(self, *arguments: str, files: tuple[str, ...] = (), timeout: float = 900) -> tuple[int, str]:
        chosen = [part for file in ("docker-compose.yml", *files) for part in ("--file", file)]
        done = subprocess.run(
            [*compose_command(), *chosen, "--profile", "cpu", *arguments],
            cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=timeout,
            env={**os.environ, "COMPOSE_PROJECT_NAME": self.folder.parent.name.replace("_", "")},
        )  # fmt: skip
        return done.returncode, done.stdout

    def evolve(self, output: str) -> tuple[int, str]:
        sets = [part for name, value in SMALL.items() for part in ("--set", f"{name}={value}")]
        return self("run", "--rm", "-T", "orchestrator", "evolve", "--output", output, *sets)

    def secret(self, name: str) -> str:
        return (self.folder / "secrets" / name).read_text().strip()

    def state(self, output: str) -> str:
        return (self.folder / output / "evolution_state.json").read_text()


def compose_command() -> list[str]:
    """The command of Compose v2, or docker-compose.  Skips the test when no engine answers."""
    if (
        shutil.which("docker") is None
        or subprocess.run(["docker", "info"], capture_output=True, check=False).returncode
    ):
        pytest.skip("no Docker engine here")
    if subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode == 0:
        return ["docker", "compose"]
    return ["docker-compose"]


@pytest.fixture
def compose(tmp_path: Path) -> Iterator[Compose]:
    compose_command()
    folder = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
    subprocess.run(["sh", "ops/secrets.sh"], cwd=folder, check=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    with (folder / ".env").open("a") as out:
        out.write(f"FLOWER_PORT={port}\n")
    (folder / "faulty.yml").write_text(FAULTY)
    started = Compose(folder, port)
    try:
        yield started
    finally:
        started("down", "--volumes", "--timeout", "20")


def test_retry_in_containers(compose: Compose, tmp_path: Path) -> None:
    status, printed = compose("up", "--detach", "--build", timeout=1800)
    assert status == 0, printed
    status, printed = compose.evolve("outputs/reference")
    assert status == 0, printed
    status, printed = compose("up", "--detach", files=("faulty.yml",))
    assert status == 0, printed
    status, printed = compose.evolve("outputs/failing")
    assert status == 3, printed
    run = json.loads((compose.folder / "outputs/failing/run.json").read_text())["id"]
    user, password = compose.secret("flower_basic_auth").split(":", 1)
    url = f"http://127.0.0.1:{compose.port}"
    with browsing(url, user, password) as page:
        page.goto("/tasks?state=FAILURE")
        row = page.locator("#tasks-table tbody tr", has_text="openai.reflect")
        row.locator("button.task-retry").wait_for()
        picture(page, "compose_tasks", tmp_path)
        row.locator("a").first.click()
        page.locator("#task-retry").click()
        page.locator(f"tr[data-run='{run}'][data-state='finished']").wait_for()
        page.locator(".run-retried", has_text="ended with status 0").wait_for()
        picture(page, "compose_runs", tmp_path)
    assert compose.state("outputs/failing") == compose.state("outputs/reference")
    with httpx.Client(base_url=url, auth=(user, password), timeout=60) as client:
        nothing_secret(client, [compose.secret(name) for name in ("valkey_password", "flower_basic_auth")])
        before = set(client.get("/api/tasks").json())
        status, printed = compose("restart", "flower")
        assert status == 0, printed
        wait_until(lambda: healthy(client), "Flower to answer again")
        assert set(client.get("/api/tasks").json()) == before


def healthy(client: httpx.Client) -> bool:
    try:
        return client.get("/healthcheck").status_code == 200
    except httpx.TransportError:
        return False


def nothing_secret(client: httpx.Client, secrets: list[str]) -> None:
    """No page of a worker, the broker or the API contains a password."""
    workers = client.get("/api/workers", params={"refresh": 1}).json()
    assert workers
    pages = ["/", "/broker", "/tasks", "/runs", "/api/runs", "/api/tasks", *(f"/worker/{name}" for name in workers)]
    texts = [json.dumps(workers), *(client.get(page).text for page in pages)]
    assert not [secret for secret in secrets for text in texts if secret in text]
