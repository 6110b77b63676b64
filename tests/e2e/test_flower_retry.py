"""A reflector fails in a real evolution; a person sees it red in Flower, presses Retry, and the run goes on."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

import pytest
from flower_process import PASSWORD, USER, Flower
from page import browsing, picture
from workplace import Workplace, finish, orchestrator, wait_until

pytestmark = pytest.mark.long
LOGS = ("target_requests.jsonl", "endpoint_calls.jsonl")


@pytest.fixture
def watched(workplace: Workplace, monkeypatch: pytest.MonkeyPatch) -> Iterator[Flower]:
    """A farm that stays, whose endpoint fails the reflector once and then never again, and a Flower that watches it."""
    monkeypatch.setenv("COLUMNS", "200")
    where = ("--config", "configs/embedded.config", "--set", f"FARM_DIR={workplace.farm}")
    up = orchestrator("farm", "up", *where, "--set", "EMBEDDED_FAULTS=mutation:quota:1")
    assert up.returncode == 0, up.stdout
    try:
        address = json.loads(orchestrator("farm", "status", "--json", *where).stdout)["redis_url"]
        flower = Flower(address, workplace.folder, outputs=workplace.output)
        try:
            yield flower
        finally:
            assert flower.stop() == 0
    finally:
        down = orchestrator("farm", "down", *where)
    assert down.returncode == 0, down.stdout
    assert workplace.processes() == []


def test_retry_on_the_task_s_page_ends_as_if_nothing_had_failed(
    undisturbed: Workplace, workplace: Workplace, watched: Flower
) -> None:
    parked = workplace.run()
    assert parked.returncode == 3, parked.stdout
    run = json.loads((workplace.output / "run.json").read_text())["id"]
    with browsing(watched.url, USER, PASSWORD) as page:
        page.goto("/tasks?state=FAILURE")
        failed = page.locator("#tasks-table tbody tr", has_text="openai.reflect")
        failed.locator(".badge.text-bg-danger", has_text="FAILURE").wait_for()
        failed.locator("button.task-retry").wait_for()
        assert run in failed.inner_text()
        assert "child" in failed.inner_text()
        picture(page, "flower_tasks", workplace.folder)
        failed.locator("a").first.click()
        page.locator("#task-retry").wait_for()
        assert "$" in page.locator(".detail-row", has_text="Run cost so far").inner_text()
        picture(page, "flower_task", workplace.folder)
        page.locator("#task-retry").click()
        page.locator(f"tr[data-run='{run}'][data-state='running']").wait_for()
        picture(page, "flower_retried", workplace.folder)
        page.locator(f"tr[data-run='{run}'][data-state='finished']").wait_for()
        page.locator(".run-retried", has_text="ended with status 0").wait_for()
        picture(page, "flower_runs", workplace.folder)
        page.goto("/tasks?state=FAILURE")
        page.get_by_text("retried since").wait_for()
    assert workplace.state() == undisturbed.state()
    assert (workplace.output / "answers.json").read_text() == (undisturbed.output / "answers.json").read_text()
    for log in LOGS:
        assert {key for key, times in Counter(workplace.answered(log)).items() if times > 1} == set()


def test_retry_in_the_list_goes_on_under_the_eyes_of_the_run_that_waits(
    undisturbed: Workplace, workplace: Workplace, watched: Flower
) -> None:
    waiting = workplace.start(RETRY_WAIT_S="600")
    try:
        with browsing(watched.url, USER, PASSWORD) as page:
            page.goto("/tasks?state=FAILURE")
            page.locator("#tasks-table button.task-retry").click()
            page.locator("#runs-page").wait_for()
        done = finish(waiting, 600)
    finally:
        waiting.terminate()
    assert done.returncode == 0, done.stdout
    assert "waiting 600 s for a retry" in done.stdout
    assert workplace.state() == undisturbed.state()


def test_the_history_outlives_a_kill(watched: Flower, workplace: Workplace) -> None:
    assert workplace.run().returncode == 3
    [failed] = [row for row in rows(watched) if row["state"] == "FAILURE"]
    history = [path for path in (watched.folder / "data").glob("history*") if path.is_file()]
    before = max((path.stat().st_mtime_ns for path in history), default=0)
    saved = [watched.folder / "data" / "history.dat", watched.folder / "data" / "history"]
    wait_until(lambda: any(p.exists() and p.stat().st_mtime_ns > before for p in saved), "the history to be saved", 60)
    watched.process.kill()
    watched.process.wait()
    watched.start()
    assert watched.row(failed["uuid"])["state"] == "FAILURE"


def rows(flower: Flower) -> list[dict[str, str]]:
    tasks = flower.client.get("/api/tasks").json()
    return [{"uuid": uuid, **task} for uuid, task in tasks.items()]
