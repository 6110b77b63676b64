"""After a review: what a run has learned becomes what the next one begins with, and a bad step is taken back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.guide.guidance_file import GuidanceError, read_guidance
from orchestrator.guide.promotion import promote, roll_back, run_guidance
from orchestrator.guide.repository import GuidanceRepository
from orchestrator.output import OutputFolder, RunInUse
from tasks.guide.operations import Operation, apply_operations, next_guidance


@pytest.fixture
def source(tmp_path: Path) -> Path:
    entry = {"step": 2, "updated_at": "then", "experiences": {"G0": "look"}}
    path = tmp_path / "guidance.json"
    path.write_text(json.dumps({"cabinet": entry, "tower": entry}))
    return path


@pytest.fixture
def run(tmp_path: Path, source: Path) -> Path:
    """A run of one mission, which has learned one rule."""
    folder = tmp_path / "run"
    OutputFolder(folder).run_id("guide")
    repository = GuidanceRepository(folder / "cabinet", "cabinet", 5)
    guidance = repository.start_from(source)
    edit = Operation("upsert", None, "a black wire fails", None, ("t",))
    applied = apply_operations(
        guidance.experiences, 0, [edit], max_operations=1, cap_left=1, group_ids=["t"], ticket_texts=[]
    )
    repository.commit(next_guidance(guidance, applied, "r1", "now"))
    return folder


def test_what_a_run_has_learned_is_promoted_and_other_missions_stay(run: Path, source: Path) -> None:
    assert promote(run_guidance(run), source) == {"cabinet": (2, 3)}
    found = read_guidance(source)
    assert dict(found["cabinet"].guidance.experiences) == {"G0": "look", "G1": "a black wire fails"}
    assert (found["cabinet"].by_hand, found["tower"].guidance.step) == (False, 2)


def test_a_file_that_has_moved_is_not_overwritten(run: Path, source: Path) -> None:
    content = json.loads(source.read_text())
    content["cabinet"] |= {"step": 4, "experiences": {"G0": "mine"}}
    source.write_text(json.dumps(content))
    before = source.read_bytes()
    with pytest.raises(GuidanceError, match="'cabinet' has moved: it is at step 4, and the run began at step 2"):
        promote(run_guidance(run), source)
    assert source.read_bytes() == before


def test_a_step_that_is_taken_back_can_be_promoted_again(run: Path, source: Path) -> None:
    promote(run_guidance(run), source)
    assert roll_back(run, "cabinet", 2, 5).step == 4
    assert promote(run_guidance(run), source) == {"cabinet": (3, 4)}
    assert dict(read_guidance(source)["cabinet"].guidance.experiences) == {"G0": "look"}


def test_a_run_at_work_is_not_taken_back(run: Path) -> None:
    output = OutputFolder(run)
    output.open()
    with pytest.raises(RunInUse):
        roll_back(run, "cabinet", 2, 5)
    output.close()


def test_a_mission_that_the_run_does_not_have_is_named(run: Path) -> None:
    with pytest.raises(GuidanceError, match="has no mission 'roof'; it has cabinet"):
        run_guidance(run, ["roof"])
