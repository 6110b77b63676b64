"""How far a run is, in its folder, in `status` and in its closing report."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from guided_world import MissionOnDisk, World, noop_text, small_settings, small_tickets

from orchestrator.guide.closing import NOT_NEW, closing_lines
from orchestrator.guide.progress import (
    guide_figure_lines,
    guide_summary,
    progress_of,
    published,
    read_progress,
    write_progress,
)
from orchestrator.guide.tally import Tally
from orchestrator.output import OutputFolder


@pytest.fixture
def learned(tmp_path: Path) -> Tally:
    """The counts of a mission that has learned its rule."""
    return MissionOnDisk(tmp_path, small_settings(tmp_path), small_tickets()).run(World()).tally


@pytest.fixture
def unchanged(tmp_path: Path) -> Tally:
    """Those of one whose reflector has nothing to say."""
    world = World()
    world.proposal = lambda number: noop_text()
    (folder := tmp_path / "unchanged").mkdir()
    return MissionOnDisk(folder, small_settings(folder), small_tickets()).run(world).tally


def test_before_the_first_batch_there_are_no_figures(tmp_path: Path) -> None:
    progress = read_progress(tmp_path)
    assert (progress.unit, progress.done, progress.total) == ("batches", 0, None)
    assert guide_figure_lines(progress.figures) == () and guide_summary(progress.figures) == ""


def test_the_counts_of_missions_add_up_and_their_rates_are_of_the_sums(
    tmp_path: Path, learned: Tally, unchanged: Tally
) -> None:
    write_progress(OutputFolder(tmp_path), progress_of([learned, unchanged], is_finished=True))
    progress = read_progress(tmp_path)
    assert (progress.done, progress.total, progress.is_finished) == (4, 4, True)
    figures = progress.figures
    assert (figures["proposals"], figures["applied"], figures["acceptance_rate"]) == (1, 1, 1)
    assert (figures["precision_paired"], figures["precision_unpaired"]) == (1, 1)
    assert figures["recall"] == 1 / 8, "one of the four wrong tickets of each mission"
    assert published(progress_of([learned], is_finished=False))["done"] == 2


def test_the_figures_in_words(learned: Tally, unchanged: Tally) -> None:
    figures = progress_of([learned, unchanged], is_finished=True)["figures"]
    assert dict(guide_figure_lines(figures)) == {
        "edits": "1 applied of 1 proposed",
        "precision": "100% paired, 100% unpaired, of applied edits with a next batch",
        "recall": "12% of 8 wrongly judged tickets were named",
        "three lines": "100% of the candidates",
    }
    assert guide_summary(figures) == "1 of 1 edits applied"
    unmeasured = progress_of([unchanged], is_finished=True)["figures"]
    assert dict(guide_figure_lines(unmeasured))["precision"].startswith("not measured paired, not measured unpaired")


def test_the_closing_report_says_who_wrote_what_and_what_the_held_out_tickets_show(
    learned: Tally, unchanged: Tally, tmp_path: Path
) -> None:
    lines = closing_lines(learned.settings, [learned, unchanged], tmp_path)
    assert lines[:4] == [
        "critic: rules (backend: endpoint)",
        "reflector: rules (backend: endpoint)",
        "form of the answers: the server enforces the three lines",
        "gate: uplift on held-out tickets at least 0.02, its probability at least 0.8, false passes up by at most 0.05",
    ]
    assert "cabinet: 2 batches; proposed edits: 1, applied: 1 (1 applied, 1 ineligible)" in lines
    assert (
        "  held-out tickets, majority: 4 of 8 right under the first guidance, 8 of 8 right under the last "
        "(balanced 50.0 % -> 100.0 %, false passes 100.0 % -> 0.0 %)"
    ) in lines
    assert "cabinet: 2 batches; proposed edits: 0, applied: 0 (2 noop)" in lines
    assert lines[-3:] == ["", f"note: {NOT_NEW}", f"files: {tmp_path}"]


def test_a_run_without_gate_or_critic_says_so(learned: Tally, tmp_path: Path) -> None:
    settings = dataclasses.replace(
        learned.settings,
        critic=dataclasses.replace(learned.settings.critic, enabled=False),
        reflection=dataclasses.replace(learned.settings.reflection, rapid_mode=True),
        sampler=dataclasses.replace(learned.settings.sampler, constrain="none"),
    )
    lines = closing_lines(settings, [learned], tmp_path)
    critic, _, form, gate = lines[:4]
    assert not any(NOT_NEW in line for line in lines), "no edit was decided on by held-out tickets"
    assert critic == "critic: none" and form == "form of the answers: nothing enforces the three lines"
    assert gate == "gate: none, because reflection.rapid_mode is true: edits are applied without a preview"
