"""In containers: the reflector fails in an evolution, Retry on Flower's page, and the state is as without the fault."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from browser import browsing, picture
from compose_clone import ComposeClone, needs_engine, small_run
from run_folder import wait_until

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600), needs_engine]
FAULTY = """\
services:
  rules:
    command: [--host, 0.0.0.0, --port, "8000", --faults, "mutation:quota:1"]
"""


@pytest.fixture
def clone(tmp_path: Path) -> Iterator[ComposeClone]:
    made = ComposeClone.make(tmp_path / f"retry-{os.getpid()}")
    (made.folder / "faulty.yml").write_text(FAULTY)
    try:
        made("build")
        made("up", "--detach")
        yield made
    finally:
        made.remove()


def evolve(clone: ComposeClone, output: str) -> tuple[int, str]:
    return clone.orchestrator_in_container(*small_run(output))


def test_retry_in_containers(clone: ComposeClone, tmp_path: Path) -> None:
    status, printed = evolve(clone, "outputs/reference")
    assert status == 0, printed
    clone("--file", "docker-compose.yml", "--file", "faulty.yml", "up", "--detach")
    status, printed = evolve(clone, "outputs/failing")
    assert status == 3, printed
    run = json.loads((clone.folder / "outputs/failing/run.json").read_text())["id"]
    user, password = clone.secret("flower_basic_auth").split(":", 1)
    with browsing(clone.flower(), user, password) as page:
        page.goto("/tasks?state=FAILURE")
        row = page.locator("#tasks-table tbody tr", has_text="openai.reflect")
        picture(page, "compose_tasks", tmp_path)
        row.locator("a").first.click()
        page.locator("#task-retry").click()
        page.locator(f"tr[data-run='{run}'][data-state='finished']").wait_for()
        picture(page, "compose_runs", tmp_path)
    assert clone.state("outputs/failing") == clone.state("outputs/reference")
    with httpx.Client(base_url=clone.flower(), auth=(user, password), timeout=60) as client:
        nothing_secret(client, [clone.secret(name) for name in ("valkey_password", "flower_basic_auth")])
        before = set(client.get("/api/tasks").json())
    clone("restart", "flower")
    # Its port may be another one now: the engine takes the next of the range that is free.
    with httpx.Client(base_url=clone.flower(), auth=(user, password), timeout=60) as client:
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
