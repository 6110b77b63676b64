"""What goes wrong in a guided run: a failing critic or reflector, replies that nobody understands, and wrong starts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from browser import browsing
from equal_runs import artifacts_of
from flower_process import PASSWORD, USER, Flower
from guide_folder import MISSIONS, GuideFolder
from run_folder import ROOT, orchestrator

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


@contextmanager
def faulty_farm(guided: GuideFolder, faults: str) -> Iterator[str]:
    """A farm that stays up, whose endpoint has these faults; gives its address."""
    where = ("--config", str(ROOT / "configs" / "embedded.config"), "--set", f"FARM_DIR={guided.farm}")
    up = orchestrator("farm", "up", *where, "--set", "GPU_SLOTS=8", "--set", f"EMBEDDED_FAULTS={faults}")
    assert up.returncode == 0, up.stdout
    try:
        yield json.loads(orchestrator("farm", "status", "--json", *where).stdout)["redis_url"]
    finally:
        assert orchestrator("farm", "down", *where).returncode == 0
    assert guided.processes() == []


@pytest.mark.parametrize(("schema", "task"), [("critique", "openai.critique"), ("proposal", "openai.propose")])
def test_a_failing_critic_or_reflector_parks_the_run_and_retry_in_flower_ends_it_as_the_reference(
    reference_guide: GuideFolder, guided: GuideFolder, monkeypatch: pytest.MonkeyPatch, schema: str, task: str
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    with faulty_farm(guided, f"{schema}:quota:1") as address:
        flower = Flower(address, guided.folder, outputs=guided.output)
        try:
            parked = guided.run(timeout=600)
            assert parked.returncode == 3, parked.stdout
            assert "Traceback" not in parked.stdout
            run = json.loads((guided.output / "run.json").read_text())["id"]
            with browsing(flower.url, USER, PASSWORD) as page:
                page.goto("/tasks?state=FAILURE")
                failed = page.locator("#tasks-table tbody tr", has_text=task)
                failed.locator(".badge.text-bg-danger", has_text="FAILURE").wait_for()
                assert run in failed.inner_text()
                failed.locator("button.task-retry").click()
                page.locator(f"tr[data-run='{run}'][data-state='finished']").wait_for(timeout=600_000)
        finally:
            assert flower.stop() == 0
    assert artifacts_of(guided.output) == artifacts_of(reference_guide.output)
    assert guided.repeated() == []


def test_five_replies_in_a_row_that_nobody_understands_park_the_run_and_retry_goes_on(guided: GuideFolder) -> None:
    with faulty_farm(guided, "critique:invalid_json:12"):
        parked, sessions = guided.run(timeout=600), 1
        while parked.returncode == 3:
            assert "5 replies in a row could not be used as a critique" in parked.stdout
            assert orchestrator("status", str(guided.output)).stdout.count("parked") > 0
            parked, sessions = orchestrator("retry", str(guided.output)), sessions + 1
        assert parked.returncode == 0, parked.stdout
    asked = [json.loads((guided.output / name / "stats.json").read_text())["critiques"] for name in MISSIONS]
    assert sum(one["rejected"] for one in asked) == 12
    assert sessions > 1
    assert guided.repeated() == []


def test_a_prompt_that_is_too_long_stops_the_run_and_status_says_why(guided: GuideFolder) -> None:
    values = yaml.safe_load(guided.config.read_text())
    values["missions"][next(iter(MISSIONS))] = "look " * 9_000
    guided.config.write_text(yaml.safe_dump(values, allow_unicode=True))
    stopped = guided.run(timeout=600)
    assert stopped.returncode == 2 and "no prompt may have more than" in stopped.stdout, stopped.stdout
    said = orchestrator("status", str(guided.output)).stdout
    assert ": stopped, " in said and "no prompt may have more than" in said
    assert "start another run" in said and "orchestrator retry" not in said


def unwritable(guided: GuideFolder, values: dict[str, Any]) -> None:
    """A file stands where the folder of the output is to be."""
    (guided.folder / "taken").write_text("")
    values["output"]["root"] = str(guided.folder / "taken")


def without_holdout(guided: GuideFolder, values: dict[str, Any]) -> None:
    (guided.output / "tickets.json").unlink()


def other_settings(guided: GuideFolder, values: dict[str, Any]) -> None:
    values["runner"]["epochs"] = 2


def other_tickets(guided: GuideFolder, values: dict[str, Any]) -> None:
    path = guided.folder / "tickets.jsonl"
    path.write_text(path.read_text().replace("unit 3:", "unit three:"))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (unwritable, "output.root: "),
        (without_holdout, "tickets.json is missing: which tickets are held out is not known"),
        (other_settings, "runner.epochs: 2 here, but 1 in the run"),
        (other_tickets, "stage_a_paths: tickets of cabinet are others"),
    ],
)
def test_a_wrong_start_ends_with_1_and_says_which_key(
    guided: GuideFolder, change: Callable[[GuideFolder, dict[str, Any]], None], named: str
) -> None:
    assert guided.run("--step", "ingest").returncode == 0
    values = yaml.safe_load(guided.config.read_text())
    change(guided, values)
    guided.config.write_text(yaml.safe_dump(values, allow_unicode=True))
    for step in ("all", "ingest"):
        refused = guided.run("--step", step)
        assert refused.returncode == 1, refused.stdout
        assert named in refused.stdout and "Traceback" not in refused.stdout
    assert guided.processes() == []


def test_a_finished_run_is_not_begun_again(reference_guide: GuideFolder) -> None:
    before = {path: path.read_bytes() for path in reference_guide.output.rglob("*") if path.is_file()}
    again = reference_guide.run()
    assert again.returncode == 1
    assert "output.fail_if_exists: " in again.stdout and "holds a finished run" in again.stdout
    assert {path: path.read_bytes() for path in reference_guide.output.rglob("*") if path.is_file()} == before
    assert Path(reference_guide.output / "run.json").exists()
