"""The tables on a guided run's page have the figures of its files, and say which file cannot be used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from guided_world import MISSION, MissionOnDisk, World, small_settings, small_tickets

from orchestrator.digest import digest_of
from orchestrator.guide.closing import NOT_NEW
from orchestrator.guide.progress import progress_of, write_progress
from orchestrator.output import OutputError, OutputFolder
from orchestrator.page.html import page_data
from orchestrator.results import RunResults


@pytest.fixture
def run(tmp_path: Path) -> MissionOnDisk:
    """A run of one mission, whole, as the command leaves it."""
    output = OutputFolder(tmp_path / "run")
    output.path.mkdir()
    output.run_id("guide")
    mission = MissionOnDisk(tmp_path, small_settings(tmp_path), small_tickets(24, 8))
    done = mission.run(World())
    write_progress(output, progress_of([done.tally], is_finished=True))
    (output.path / "settings.yaml").write_text("model: {model_name_or_path: embedded}\nfarm: {}\n")
    return mission


def test_the_page_has_the_figures_of_the_files(run: MissionOnDisk) -> None:
    [page] = page_data([RunResults.open(run.path.parent)])["runs"]
    lines, stats = run.lines("reflection.jsonl"), run.value("stats.json")
    missions, decisions, experiences = page["tables"]
    [mission] = [dict(zip(missions["columns"], row, strict=True)) for row in missions["rows"]]
    assert mission["mission"] == MISSION
    assert mission["batches"] == f"{len(lines)} of {stats['batches']['total']}"
    assert mission["applied"] == sum(line["applied"] for line in lines)
    before = stats["holdout"]["before"]["majority"]["balanced_accuracy"]
    assert mission["balanced accuracy, first"] == f"{before:.1%}"
    rows = [dict(zip(decisions["columns"], row, strict=True)) for row in decisions["rows"]]
    assert [row["step"] for row in rows] == [line["step"] for line in lines]
    for row, line in zip(rows, lines, strict=True):
        assert row["applied"] == ("yes" if line["applied"] else "no") and row["decision"].startswith(line["gate"])
        figures = line["figures"]
        assert row["uplift, points"] == (None if figures is None else round(100 * figures["uplift"], 1))
    known = run.value("guidance.json")[MISSION]["experiences"]
    assert {row[0]: row[1] for row in experiences["rows"]} == {f"[{key}]": text for key, text in known.items()}
    assert NOT_NEW in missions["about"]
    assert page["digest"]["verdict"] == f"{mission['applied']} of {mission['edits proposed']} edits applied"
    assert ["model.model_name_or_path", "embedded", True] in page["settings"]


def test_a_run_that_has_not_begun_has_no_tables(tmp_path: Path) -> None:
    OutputFolder(tmp_path).run_id("guide")
    found = RunResults.open(tmp_path)
    assert found.tables == () and digest_of(found).verdict is None


@pytest.mark.parametrize("name", ["stats.json", "reflection.jsonl", "guidance.json"])
def test_a_damaged_file_is_named(run: MissionOnDisk, name: str) -> None:
    (run.path / name).write_text(json.dumps({"step": 1}) + "\n")
    with pytest.raises(OutputError, match=name.partition(".")[0]):
        _ = RunResults.open(run.path.parent).tables
