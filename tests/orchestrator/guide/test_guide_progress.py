"""How far a run is, in its folder, in `status`, in its closing report and on its page."""

from __future__ import annotations

from pathlib import Path

import pytest
from guided_world import MISSION, MissionOnDisk, World, noop_text, small_settings, small_tickets

from orchestrator.guide.report import guide_tables, progress_of
from orchestrator.guide.run import KIND
from orchestrator.runs.folder import OutputFolder
from orchestrator.runs.kinds import PROGRESS_FILE


def finished(folder: Path, world: World) -> MissionOnDisk:
    folder.mkdir()
    mission = MissionOnDisk(folder, small_settings(folder), small_tickets())
    assert mission.run(world).is_finished
    return mission


@pytest.fixture
def learned(tmp_path: Path) -> MissionOnDisk:
    """A mission that has learned its rule."""
    return finished(tmp_path / "learned", World())


def test_the_counts_of_missions_add_up_and_their_rates_are_of_the_sums(tmp_path: Path, learned: MissionOnDisk) -> None:
    world = World()
    world.proposal = lambda number: noop_text()
    all_stats = [one.value("stats.json") for one in (learned, finished(tmp_path / "unchanged", world))]
    assert (KIND.progress(tmp_path).done, KIND.progress(tmp_path).total) == (0, None)
    OutputFolder(tmp_path).write_json(PROGRESS_FILE, progress_of(all_stats, is_finished=True))
    progress = KIND.progress(tmp_path)
    assert (progress.unit, progress.done, progress.total, progress.is_finished) == ("batches", 4, 4, True)
    assert progress.figures == {
        "proposals": 1.0, "applied": 1.0, "wrong": 8.0, "acceptance_rate": 1.0, "precision_paired": 1.0,
        "precision_unpaired": 1.0, "recall": 1 / 8, "format_validity": 1.0,
    }  # fmt: skip
    shown = dict(KIND.figure_lines(progress.figures))
    assert shown["edits"] == "1 applied of 1 proposed" and shown["recall"].startswith("12% of 8")


def test_the_page_has_the_figures_of_the_files(learned: MissionOnDisk) -> None:
    missions, decisions, experiences = guide_tables(learned.path.parent)
    [row] = [dict(zip(missions.columns, row, strict=True)) for row in missions.rows]
    assert (row["mission"], row["batches"], row["applied"]) == (MISSION, "2 of 2", 1)
    assert row["balanced accuracy, first"] == "50.0 %"
    for shown, line in zip(decisions.rows, learned.lines("reflection.jsonl"), strict=True):
        assert (shown[0], shown[1]) == (line["step"], "yes" if line["applied"] else "no")
        assert shown[4] == (line["figures"] and round(100 * line["figures"]["uplift"], 1))
    known = learned.value("guidance.json")[MISSION]["experiences"]
    assert {row[0]: row[1] for row in experiences.rows} == {f"[{key}]": text for key, text in known.items()}
