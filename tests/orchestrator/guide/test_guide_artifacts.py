"""The files of a mission: every line fits its schema, and a start that writes the same again changes nothing."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from orchestrator.guide.artifacts import (
    GROWING,
    ArtifactError,
    Kind,
    MissionFolder,
    artifact_schema,
    check_artifact,
    without_times,
)

HASH = "0" * 64
KINDS: tuple[Kind, ...] = ("rollout", "trajectories", "selections", "reflection", "review", "stats", "guidance")


def flagged(group_id: str, step: int) -> dict[str, Any]:
    """A line of review.jsonl, without its time."""
    return {
        "group_id": group_id, "mission": "m", "epoch": 1, "step": step, "label": "pass", "reasons": ["all_wrong"],
        "guidance_step": 0, "guidance_hash": HASH, "reflection_id": None,
    }  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def at(folder: Path, start: int) -> MissionFolder:
    """The folder in a session whose clock begins at this minute."""
    minutes = count(start)
    return MissionFolder(folder, lambda: f"2026-01-01T00:{next(minutes):02}:00.000000Z")


def test_the_schemas_are_schemas_and_leave_no_field_open() -> None:
    for kind in KINDS:
        jsonschema.Draft202012Validator.check_schema(schema := artifact_schema(kind))
        assert schema["additionalProperties"] is not True and "title" in schema


def test_a_line_that_does_not_fit_is_not_written(folder: Path) -> None:
    mission = at(folder, 0)
    for line in (flagged("t1", 1) | {"reasons": ["bad mood"]}, flagged("t1", 1) | {"more": 1}, {"group_id": "t1"}):
        with pytest.raises(ArtifactError, match="review"):
            mission.extend("review", [flagged("t0", 1), line])
    assert list(folder.iterdir()) == []


def test_a_growing_file_is_whole_after_each_batch_and_the_same_lines_again_leave_it_as_it_is(folder: Path) -> None:
    first = at(folder, 0)
    for step in (1, 2):
        first.extend("review", [flagged(f"t{step}", step)])
    written = (folder / "review.jsonl").read_bytes()
    assert [json.loads(line)["created_at"][14:16] for line in written.splitlines()] == ["00", "01"]
    # When a second start adds the same lines later, then the file is as it was; and new ones follow
    second = at(folder, 30)
    for step in (1, 2):
        second.extend("review", [flagged(f"t{step}", step)])
        assert (folder / "review.jsonl").read_bytes() == written
    second.extend("review", [flagged("t3", 3)])
    assert (folder / "review.jsonl").read_bytes().startswith(written)
    assert [line["group_id"] for line in second.lines("review")] == ["t1", "t2", "t3"]


def test_other_lines_replace_all_that_followed(folder: Path) -> None:
    first = at(folder, 0)
    for step in (1, 2, 3):
        first.extend("review", [flagged("t", step)])
    second = at(folder, 30)
    second.extend("review", [flagged("t", 1)])
    second.extend("review", [flagged("other", 2)])
    lines = [json.loads(line) for line in (folder / "review.jsonl").read_text().splitlines()]
    assert [(line["group_id"], line["created_at"][14:16]) for line in lines] == [("t", "00"), ("other", "31")]


def test_a_whole_file_is_replaced_only_when_more_than_times_changes(folder: Path) -> None:
    at(folder, 0).write_lines("step_1/review.jsonl", "review", [flagged("a", 1)])
    path = folder / "step_1" / "review.jsonl"
    written = path.read_bytes()
    at(folder, 9).write_lines("step_1/review.jsonl", "review", [flagged("a", 1)])
    assert path.read_bytes() == written
    at(folder, 9).write_lines("step_1/review.jsonl", "review", [flagged("b", 1)])
    assert json.loads(path.read_text())["group_id"] == "b"


def test_guidance_has_at_least_one_experience_and_keys_with_numbers() -> None:
    def guidance(**experiences: str) -> dict[str, Any]:
        return {"m": {"step": 0, "updated_at": "2026-01-01T00:00:00Z", "experiences": experiences}}

    check_artifact("guidance", guidance(G0="a", G10="b"))
    for wrong in (guidance(), guidance(G01="a"), guidance(rule="a"), {}):
        with pytest.raises(ArtifactError, match="guidance"):
            check_artifact("guidance", wrong)


def test_times_are_left_out_at_any_depth() -> None:
    value = {"a": [{"created_at": 1, "b": {"updated_at": 2, "c": 3}}], "updated_at": 4}
    assert without_times(value) == {"a": [{"b": {"c": 3}}]}
    assert set(GROWING) == {"selections", "reflection", "review"}
