"""A reflector fails in a real evolution; Flower shows the failed task, and its Retry button continues the run."""

from __future__ import annotations

import json

import pytest
from browser import browser_page
from flower_process import PASSWORD, USER, Flower
from rules_server import RulesServer
from run_folder import RunFolder, farm_up

pytestmark = pytest.mark.long


def test_retry_on_the_page_of_the_task_ends_in_the_reference_state(
    reference_run: RunFolder, run_folder: RunFolder, rules: RulesServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a farm that stays up, a run that is parked since its reflector failed, and a Flower
    monkeypatch.setenv("OPENAI_API_KEY", rules.key)  # of the retries that Flower starts
    rules.fail("mutation:quota:1")
    run_folder.options |= rules.options
    with farm_up(run_folder, **rules.options) as address:
        parked = run_folder.run()
        assert parked.returncode == 3, parked.stdout
        run = json.loads((run_folder.output / "run.json").read_text())["id"]
        flower = Flower(address, run_folder.folder, outputs=run_folder.output)
        try:
            # When its task is retried
            login = {"username": USER, "password": PASSWORD}
            with browser_page(base_url=flower.url, http_credentials=login) as page:
                page.goto("/tasks?state=FAILURE")
                failed = page.locator("#tasks-table tbody tr", has_text="openai.reflect")
                failed.locator(".badge.text-bg-danger", has_text="FAILURE").wait_for()
                assert run in failed.inner_text()
                failed.locator("a").first.click()
                page.locator("#task-retry").click()
                # Then it ends as one that nothing happened to, and nothing was asked twice
                page.locator(f"tr[data-run='{run}'][data-state='running']").wait_for()
                page.locator(f"tr[data-run='{run}'][data-state='finished']").wait_for()
        finally:
            assert flower.stop() == 0
    assert run_folder.result() == reference_run.result()
    assert run_folder.repeated(twice=reference_run.repeated()) == []
