"""Experiences on disk: always whole, never empty, never moved back, and no edit by hand goes unnoticed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.guide.guidance import GuidanceRepository, promote, read_guidance, roll_back, run_guidance
from orchestrator.runs.folder import OutputError, OutputFolder, RunInUse
from tasks.guide.experiences import Guidance, Operation, apply_operations, next_guidance


def person_writes(path: Path, step: int = 3, **experiences: str) -> Path:
    entry = {"step": step, "updated_at": "then", "experiences": experiences}
    path.write_text(json.dumps({"cabinet": entry, "tower": entry}))
    return path


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return person_writes(tmp_path / "guidance.json", G10="the tenth", G2="the second")


@pytest.fixture
def repository(tmp_path: Path, source: Path) -> GuidanceRepository:
    OutputFolder(tmp_path / "run").run_id("guide")
    repository = GuidanceRepository(tmp_path / "run" / "cabinet", "cabinet", 2)
    repository.start_from(source)
    return repository


def with_rule(guidance: Guidance, text: str, at: str = "now") -> Guidance:
    """The guidance after an edit that adds a rule."""
    added, highest = Operation(op="upsert", text=text, evidence=("t",)), guidance.metadata.highest
    limits = {"max_operations": 9, "cap_left": 9}
    applied = apply_operations(guidance.experiences, highest, [added], **limits, bundle=["t"], tickets={})
    return next_guidance(guidance, applied, f"of {text}", at)


def steps(repository: GuidanceRepository) -> list[int]:
    """Those that snapshots have."""
    return [kept.step for kept in repository.snapshots().values()]


def test_a_persons_file_begins_its_history_and_an_edit_by_hand_is_a_step_when_it_says_so(source: Path) -> None:
    stored = read_guidance(source)["cabinet"]
    assert list(stored.experiences) == ["G2", "G10"] and stored.metadata.highest == 10
    promote({"cabinet": with_rule(stored, "of a run")}, source)
    content = json.loads(source.read_text())
    content["cabinet"]["experiences"] = {"G2": "a better rule", "G12": "mine"}
    source.write_text(json.dumps(content))
    with pytest.raises(OutputError, match="step 4"):
        read_guidance(source)
    content["cabinet"]["step"] = 7
    source.write_text(json.dumps(content))
    found = read_guidance(source)["cabinet"].metadata
    assert [line.step for line in found.history] == [3, 4, 7] and found.highest == 12
    is_removed = {key: entry.removed for key, entry in found.entries.items()}
    assert is_removed == {"G2": False, "G10": True, "G11": True, "G12": False}


def test_a_first_file_that_cannot_be_used_begins_no_run(tmp_path: Path) -> None:
    path = tmp_path / "guidance.json"
    for experiences, named in (
        ("{", "line 1"), ("{}", "experiences"), ('{"G01": "x"}', "G01"), ('{"G1": "x\\ny"}', r"experiences\.G1"),
        ('{"G1": "x", "G1": "y"}', "G1"),
    ):  # fmt: skip
        path.write_text(f'{{"cabinet": {{"step": 1, "updated_at": "", "experiences": {experiences}}}}}')
        with pytest.raises(OutputError, match=f"{path}.*{named}"):
            GuidanceRepository(tmp_path / "run", "cabinet", 2).start_from(path)
        assert not (tmp_path / "run").exists()


def test_a_run_that_goes_through_its_steps_anew_moves_nothing(repository: GuidanceRepository, source: Path) -> None:
    first = repository.load()
    second = with_rule(first, "a rule")
    third = with_rule(second, "another")
    repository.commit(second)
    repository.commit(third)
    before = repository.path.read_bytes()

    source.unlink()  # the run has what it needs
    again = GuidanceRepository(repository.folder, "cabinet", 2)
    assert again.start_from(source) == first
    for guidance in (with_rule(first, "a rule", at="later"), third):
        again.commit(guidance)
        assert repository.path.read_bytes() == before
    again.commit(with_rule(again.load(), "a fourth"))
    assert again.load().step == 6 and steps(again) == [5, 6], "so many snapshots are kept"
    with pytest.raises(OutputError, match="step 6"):
        again.commit(with_rule(third, "of somebody else"))


def test_a_kill_between_the_file_and_its_snapshot_leaves_no_gap(repository: GuidanceRepository, source: Path) -> None:
    second = with_rule(repository.load(), "a rule")
    repository.commit(second)
    list(repository.snapshots())[-1].unlink()
    repository.start_from(source)
    assert steps(repository) == [3, 4]
    # and the newest snapshot stands for a file that was removed
    repository.path.unlink()
    repository.start_from(source)
    assert repository.load() == second


def test_what_a_run_has_learned_is_promoted_or_taken_back_and_other_missions_stay(
    repository: GuidanceRepository, source: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    repository.commit(with_rule(repository.load(), "a black wire fails"))
    assert promote(run_guidance(run), source) == {"cabinet": (3, 4)}
    found = read_guidance(source)
    assert found["cabinet"].experiences["G11"] == "a black wire fails"
    assert found["tower"].step == 3
    # a step that is taken back can be promoted again
    assert roll_back(run, "cabinet", 3, 5).step == 5
    assert promote(run_guidance(run), source) == {"cabinet": (4, 5)}
    assert dict(read_guidance(source)["cabinet"].experiences) == {"G2": "the second", "G10": "the tenth"}
    with pytest.raises(OutputError, match="3, 4, 5"):
        roll_back(run, "cabinet", 1, 5)
    # not of a run at work, and not over what somebody else has changed
    output = OutputFolder(run)
    output.open()
    with pytest.raises(RunInUse):
        roll_back(run, "cabinet", 3, 5)
    output.close()
    before = person_writes(source, 4, G0="mine").read_bytes()
    with pytest.raises(OutputError, match="step 4"):
        promote(run_guidance(run), source)
    assert source.read_bytes() == before
