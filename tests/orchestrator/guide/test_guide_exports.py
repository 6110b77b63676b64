"""What stands in a run's folder before the first batch, and its artifacts made anew without a farm."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from guided_world import MISSION, MissionOnDisk, World, small_settings, small_tickets

from orchestrator.guide.artifacts import GROWING
from orchestrator.guide.exports import rebuild_exports
from orchestrator.guide.layout import keep_context, read_context, write_ingest
from orchestrator.guide.prompt_files import Templates
from orchestrator.output import OutputError, OutputFolder


@pytest.fixture
def on_disk(tmp_path: Path) -> MissionOnDisk:
    return MissionOnDisk(tmp_path, small_settings(tmp_path), small_tickets(training=10))


def record(mission: MissionOnDisk, world: World, most: int = 10_000) -> None:
    """Run a mission as a session does: with its journal, and its context in the run's folder."""
    mission.run(world, most)
    started, journal = mission.start()
    for key, result in world.answers.items():
        journal.add(key, result)
    journal.flush()
    keep_context(OutputFolder(mission.path.parent), started.setup.context)


def test_the_shuffles_name_the_batch_of_each_ticket_and_the_dropped_ones(on_disk: MissionOnDisk) -> None:
    mission, _ = on_disk.start()
    write_ingest(on_disk.path, on_disk.settings, on_disk.tickets, mission.first)
    for epoch in (1, 2):
        lines = on_disk.lines(f"epoch_{epoch}/shuffled_data.jsonl")
        assert [line["batch"] for line in lines] == [epoch] * 8 + [None] * 2
        assert {line["epoch"] for line in lines} == {epoch}
    stats = on_disk.value("stats.json")
    assert stats["batches"]["done"] == 0 and stats["tickets"]["training"] == 10 and not stats["is_finished"]


def test_an_ingest_takes_nothing_back_that_a_run_has_counted(on_disk: MissionOnDisk) -> None:
    mission = on_disk.run(World())
    before = (on_disk.path / "stats.json").read_bytes()
    write_ingest(on_disk.path, on_disk.settings, on_disk.tickets, mission.first)
    assert (on_disk.path / "stats.json").read_bytes() == before


def test_lost_exports_are_made_anew_from_the_journal_alone(on_disk: MissionOnDisk) -> None:
    record(on_disk, World())
    kept = {path: path.read_bytes() for path in on_disk.path.rglob("*") if path.is_file()}
    for kind in GROWING:
        (on_disk.path / f"{kind}.jsonl").unlink()
    shutil.rmtree(on_disk.path / "step_1")
    ingested = {MISSION: on_disk.tickets}
    rebuild_exports(on_disk.settings, ingested, Templates.read(on_disk.settings), on_disk.path.parent)
    assert {path for path in on_disk.path.rglob("*") if path.is_file()} == set(kept)
    for name in ("guidance.json", "stats.json", "final/selections.jsonl"):
        assert (on_disk.path / name).read_bytes() == kept[on_disk.path / name]
    assert len(on_disk.lines("selections.jsonl")) == 16


def test_a_run_that_is_not_all_answered_is_refused_by_the_name_of_the_mission(on_disk: MissionOnDisk) -> None:
    ingested, folder = {MISSION: on_disk.tickets}, on_disk.path.parent
    with pytest.raises(OutputError, match="the run has asked nothing yet"):
        rebuild_exports(on_disk.settings, ingested, Templates.read(on_disk.settings), folder)
    record(on_disk, World(), most=9)
    with pytest.raises(OutputError, match="not all is answered of cabinet; --step all goes on"):
        rebuild_exports(on_disk.settings, ingested, Templates.read(on_disk.settings), folder)


def test_who_answers_is_kept_with_the_run(on_disk: MissionOnDisk) -> None:
    output = OutputFolder(on_disk.path.parent)
    assert read_context(output) is None
    mission, _ = on_disk.start()
    keep_context(output, mission.setup.context)
    assert read_context(output) == mission.setup.context
