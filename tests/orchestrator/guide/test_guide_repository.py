"""Experiences on disk: always whole, never empty, never moved back, and no edit by hand goes unnoticed."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.guide.guidance_file import GuidanceError, guidance_text
from orchestrator.guide.repository import GuidanceRepository
from tasks.guide.experiences import Guidance
from tasks.guide.operations import Operation, apply_operations, next_guidance

FIRST = {"G10": "the tenth", "G2": "the second"}


def person_writes(path: Path, step: int = 3, **experiences: str) -> Path:
    path.write_text(json.dumps({"cabinet": {"step": step, "updated_at": "then", "experiences": experiences}}))
    return path


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return person_writes(tmp_path / "guidance.json", **FIRST)


@pytest.fixture
def repository(tmp_path: Path, source: Path) -> GuidanceRepository:
    repository = GuidanceRepository(tmp_path / "run" / "cabinet", "cabinet", 2)
    repository.start_from(source)
    return repository


def edited(guidance: Guidance, *operations: Operation, reflection_id: str = "r1", at: str = "now") -> Guidance:
    applied = apply_operations(
        guidance.experiences, guidance.metadata.highest, operations,
        max_operations=9, cap_left=9, group_ids=["t"], ticket_texts=[],
    )  # fmt: skip
    assert not applied.rejected
    return next_guidance(guidance, applied, reflection_id, at)


def add(text: str) -> Operation:
    return Operation("upsert", None, text, None, ("t",))


def test_a_run_begins_with_what_the_file_has_in_the_order_of_the_numbers(repository: GuidanceRepository) -> None:
    guidance = repository.load()
    assert list(guidance.experiences.items()) == [("G2", "the second"), ("G10", "the tenth")]
    assert (guidance.step, guidance.updated_at, guidance.metadata.highest) == (3, "then", 10)
    assert [snapshot.guidance for snapshot in repository.snapshots()] == [guidance]


def test_each_step_replaces_the_file_and_leaves_a_snapshot_and_the_oldest_go(repository: GuidanceRepository) -> None:
    guidance = repository.load()
    for number in range(4):
        guidance = repository.commit(edited(guidance, add(f"rule {number}"), reflection_id=f"r{number}"))
    assert repository.load() == guidance
    assert [snapshot.guidance.step for snapshot in repository.snapshots()] == [6, 7]
    assert list(guidance.experiences)[-1] == "G14"


def test_a_run_that_goes_through_its_steps_anew_moves_nothing(repository: GuidanceRepository, source: Path) -> None:
    first = repository.load()
    second = repository.commit(edited(first, add("a rule")))
    third = repository.commit(edited(second, add("another")))
    before = repository.path.read_bytes()

    source.unlink()  # the run has what it needs
    again = GuidanceRepository(repository.folder, "cabinet", 2)
    assert again.start_from(source) == first
    replayed = again.commit(edited(first, add("a rule"), at="later"))
    assert repository.path.read_bytes() == before
    assert again.commit(edited(replayed, add("another"), at="later")) == third
    fourth = again.commit(edited(again.load(), add("a fourth")))
    assert [line.updated_at for line in fourth.metadata.history] == ["then", "now", "now", "now"]


def test_a_step_of_another_run_is_refused(repository: GuidanceRepository) -> None:
    first = repository.load()
    repository.commit(edited(first, add("a rule")))
    with pytest.raises(GuidanceError, match=r"is at step 4 .*, which is not the one before step 4 of this run"):
        repository.commit(edited(first, add("another rule")))


@pytest.mark.parametrize("change", [{"experiences": {"G2": "else"}}, {"experiences": {"G2": "else"}, "step": 9}])
def test_an_edit_by_hand_of_a_runs_own_file_is_noticed(repository: GuidanceRepository, change: dict[str, Any]) -> None:
    guidance = repository.load()
    content = json.loads(repository.path.read_text())
    content["cabinet"] |= change
    repository.path.write_text(json.dumps(content))
    with pytest.raises(GuidanceError, match=r"restore the newest file of .*/run/cabinet/snapshots"):
        repository.commit(edited(guidance, add("a rule")))


def test_a_run_goes_on_after_the_numbers_of_the_first_file(repository: GuidanceRepository, tmp_path: Path) -> None:
    guidance = repository.commit(edited(repository.load(), add("a rule")))
    promoted = tmp_path / "promoted.json"
    promoted.write_text(guidance_text({"cabinet": guidance}))
    begun = GuidanceRepository(tmp_path / "next" / "cabinet", "cabinet", 2)
    assert list(edited(begun.start_from(promoted), add("new")).experiences) == ["G2", "G10", "G11", "G12"]


def test_a_number_is_never_given_again(repository: GuidanceRepository) -> None:
    guidance = edited(repository.load(), Operation("remove", "G10", None, None, ("t",)))
    guidance = repository.commit(guidance)
    guidance = repository.commit(edited(guidance, add("after it"), reflection_id="r2"))
    assert list(guidance.experiences) == ["G2", "G11"]
    assert guidance.metadata.entries["G10"].removed
    again = replace(edited(guidance, add("x"), reflection_id="r3"), experiences={"G2": "the second", "G10": "back"})
    with pytest.raises(ValueError, match="does not follow"):
        repository.commit(again)


def test_an_earlier_step_comes_back_as_a_new_one(repository: GuidanceRepository) -> None:
    guidance = repository.commit(edited(repository.load(), add("a bad rule")))
    back = repository.roll_back(3)
    assert (back.step, dict(back.experiences)) == (5, {"G2": "the second", "G10": "the tenth"})
    assert [line.reflection_id for line in back.metadata.history] == [None, "r1", "rollback:3"]
    assert repository.load() == back
    assert guidance.step == 4
    with pytest.raises(GuidanceError, match="has no snapshot of step 3; it has 4, 5"):
        repository.roll_back(3)


def test_snapshots_are_named_by_microseconds_and_none_is_overwritten(tmp_path: Path, source: Path) -> None:
    stopped = datetime.datetime(2026, 1, 2, 3, 4, 5, 678901, datetime.UTC)
    clock = iter([stopped] * 9)
    repository = GuidanceRepository(tmp_path / "run", "cabinet", 5, lambda: next(clock))
    guidance = repository.start_from(source)
    repository.commit(edited(guidance, add("a rule")))
    assert [snapshot.path.name for snapshot in repository.snapshots()] == [
        "guidance-20260102-030405-678901.json", "guidance-20260102-030405-678902.json"
    ]  # fmt: skip


def test_the_newest_snapshots_stay_when_the_clock_goes_back(tmp_path: Path, source: Path) -> None:
    def clock() -> Iterator[datetime.datetime]:
        for year in range(2040, 2000, -1):
            yield datetime.datetime(year, 1, 1, tzinfo=datetime.UTC)

    times = clock()
    repository = GuidanceRepository(tmp_path / "run", "cabinet", 2, lambda: next(times))
    guidance = repository.start_from(source)
    for number in range(3):
        guidance = repository.commit(edited(guidance, add(f"rule {number}"), reflection_id=f"r{number}"))
    assert [snapshot.guidance.step for snapshot in repository.snapshots()] == [5, 6]


def test_a_kill_between_the_file_and_its_snapshot_leaves_no_gap(repository: GuidanceRepository, source: Path) -> None:
    repository.commit(edited(repository.load(), add("a rule")))
    repository.snapshots()[-1].path.unlink()
    repository.start_from(source)
    assert [snapshot.guidance.step for snapshot in repository.snapshots()] == [3, 4]


def test_the_newest_snapshot_stands_for_a_file_that_was_removed(repository: GuidanceRepository, source: Path) -> None:
    first = repository.load()
    second = repository.commit(edited(first, add("a rule")))
    repository.path.unlink()
    assert repository.start_from(source) == first
    assert repository.load() == second
    assert [snapshot.guidance for snapshot in repository.snapshots()] == [first, second]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "not JSON"),
        ('{"tower": {"step": 1, "updated_at": "", "experiences": {"G1": "x"}}}', "has no experiences of 'cabinet'"),
    ],
)
def test_a_first_file_that_cannot_be_used_begins_no_run(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "guidance.json").write_text(text)
    with pytest.raises(GuidanceError, match=reason):
        GuidanceRepository(tmp_path / "run", "cabinet", 2).start_from(tmp_path / "guidance.json")
    assert not (tmp_path / "run").exists()
