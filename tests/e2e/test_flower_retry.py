"""A reflector fails in a real evolution; Flower shows the failed task, and its Retry button continues the run."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from browser import browsing, picture
from flower_process import PASSWORD, USER, Flower
from rules_server import RulesServer
from run_folder import RunFolder, farm_up, finish

pytestmark = pytest.mark.long


@pytest.fixture
def flower(run_folder: RunFolder, rules: RulesServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Flower]:
    """A farm that stays up, whose endpoint fails one call of the reflector, and a Flower on it."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("OPENAI_API_KEY", rules.key)  # of the retries that Flower starts
    rules.fail("mutation:quota:1")
    run_folder.options |= rules.options
    with farm_up(run_folder, **rules.options) as address:
        started = Flower(address, run_folder.folder, outputs=run_folder.output)
        try:
            yield started
        finally:
            assert started.stop() == 0


def test_retry_on_the_page_of_the_task_ends_in_the_reference_state(
    reference_run: RunFolder, run_folder: RunFolder, flower: Flower
) -> None:
    parked = run_folder.run()
    assert parked.returncode == 3, parked.stdout
    run = json.loads((run_folder.output / "run.json").read_text())["id"]
    with browsing(flower.url, USER, PASSWORD) as page:
        page.goto("/tasks?state=FAILURE")
        failed = page.locator("#tasks-table tbody tr", has_text="openai.reflect")
        failed.locator(".badge.text-bg-danger", has_text="FAILURE").wait_for()
        assert run in failed.inner_text()
        assert "child" in failed.inner_text()
        picture(page, "flower_tasks", run_folder.folder)
        failed.locator("a").first.click()
        page.locator("#task-retry").wait_for()
        picture(page, "flower_task", run_folder.folder)
        page.locator("#task-retry").click()
        page.locator(f"tr[data-run='{run}'][data-state='running']").wait_for()
        picture(page, "flower_retried", run_folder.folder)
        page.locator(f"tr[data-run='{run}'][data-state='finished']").wait_for()
        picture(page, "flower_runs", run_folder.folder)
    assert run_folder.result() == reference_run.result()
    assert run_folder.repeated(twice=reference_run.repeated()) == []


def test_retry_in_the_list_continues_the_run_that_waits(
    reference_run: RunFolder, run_folder: RunFolder, flower: Flower
) -> None:
    waiting = run_folder.start("--retry-wait", "600")
    assert waiting.stdout is not None
    try:
        assert any("waiting 600 s for a retry" in line for line in waiting.stdout), "it did not wait"
        with browsing(flower.url, USER, PASSWORD) as page:
            page.goto("/tasks?state=FAILURE")
            page.locator("#tasks-table tbody tr", has_text="openai.reflect").locator("a").first.click()
            page.locator("#task-retry").click()
            page.locator("#runs-page").wait_for()
        done = finish(waiting)
    finally:
        waiting.terminate()
    assert done.returncode == 0, done.stdout
    assert run_folder.result() == reference_run.result()
