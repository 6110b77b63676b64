"""`guide compare`: two runs are the same when they differ in times and in the name of the run only."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from orchestrator.guide.compare import SHOWN, differing_places
from orchestrator.output import OutputError, OutputFolder


def write_run(folder: Path, name: str, minute: int, text: str = "a rule") -> Path:
    """A run of one mission with one reflection, at some time."""
    folder.mkdir()
    OutputFolder(folder).run_id("guide")
    time, reflection = f"2026-01-01T00:{minute:02}:00Z", f"{name}-reflection"
    guidance = {"m": {"step": 1, "updated_at": time, "experiences": {"G0": text}}}
    mission = folder / "m"
    files: dict[str, Any] = {
        "guidance.json": guidance,
        f"snapshots/guidance-20260101-00{minute:02}00-000000.json": guidance,
        "stats.json": {"run": name, "updated_at": time, "tokens": {"rollout": 10}},
        "reflection.jsonl": {"reflection_id": reflection, "step": 1, "applied": True, "created_at": time},
        "selections.jsonl": {"group_id": "t1", "reflection_change": reflection},
        "step_1/rollout.jsonl": {"group_id": "t1", "response_text": "Verdict: pass", "created_at": time},
        "journal.jsonl": {"key": name, "result": {}},
    }
    for file, content in files.items():
        (mission / file).parent.mkdir(parents=True, exist_ok=True)
        (mission / file).write_text(json.dumps(content) + "\n")
    return folder


@pytest.fixture
def first(tmp_path: Path) -> Path:
    return write_run(tmp_path / "first", "one", 1)


def test_other_times_and_another_name_of_the_run_are_no_difference(first: Path, tmp_path: Path) -> None:
    assert differing_places(first, write_run(tmp_path / "second", "two", 2)) == []


def test_each_difference_is_told_with_mission_file_and_place(first: Path, tmp_path: Path) -> None:
    second = write_run(tmp_path / "second", "one", 2, text="another rule")
    rollout = second / "m" / "step_1" / "rollout.jsonl"
    line = json.loads(rollout.read_text())
    rollout.write_text(json.dumps(line | {"response_text": "Verdict: fail"}) + "\n")
    (second / "m" / "review.jsonl").write_text("")
    assert differing_places(first, second) == [
        "m/guidance.json: m.experiences.G0: 'a rule' and 'another rule'",
        f"m/review.jsonl: is only in {second}",
        "m/step_1/rollout.jsonl: line 1.response_text: 'Verdict: pass' and 'Verdict: fail'",
        "m/snapshots: 1 and 1 snapshots, or of other guidance",
    ]


def test_a_damaged_file_is_named_or_differs_and_is_never_the_same(first: Path, tmp_path: Path) -> None:
    second = write_run(tmp_path / "second", "one", 1)
    reflections, selections = second / "m" / "reflection.jsonl", second / "m" / "selections.jsonl"
    whole = reflections.read_text()
    reflections.write_text('{"step": 1}\n')
    assert any(line.startswith("m/reflection.jsonl: line 1.") for line in differing_places(first, second))
    reflections.write_text(whole)
    whole = selections.read_text()
    for tail in ("{", "{\n"):
        selections.write_text(whole + tail)
        with pytest.raises(OutputError, match="the last line is no object"):
            differing_places(first, second)


def test_a_missing_mission_a_missing_line_and_another_type_are_differences(first: Path, tmp_path: Path) -> None:
    second = write_run(tmp_path / "second", "one", 1)
    shutil.copytree(second / "m", second / "n")
    (second / "m" / "selections.jsonl").write_text("")
    (second / "m" / "stats.json").write_text(json.dumps({"run": "one", "tokens": {"rollout": 10.0}}))
    assert differing_places(first, second) == [
        f"n: is only in {second}",
        "m/selections.jsonl: 1 and 0 entries",
        "m/stats.json: tokens.rollout: 10 and 10.0",
    ]


def test_of_many_differences_in_a_file_the_first_are_told(first: Path, tmp_path: Path) -> None:
    second = write_run(tmp_path / "second", "one", 1)
    for run, verdict in ((first, "pass"), (second, "fail")):
        lines = [json.dumps({"group_id": f"t{n}", "verdict": verdict}) for n in range(SHOWN + 5)]
        (run / "m" / "selections.jsonl").write_text("\n".join(lines) + "\n")
    found = differing_places(first, second)
    assert len(found) == SHOWN + 1 and found[-1] == "m/selections.jsonl: 5 more differences"


def test_a_folder_without_a_guided_run_or_without_missions_is_refused(first: Path, tmp_path: Path) -> None:
    empty, other = tmp_path / "empty", tmp_path / "other"
    for folder in (empty, other):
        folder.mkdir()
    shutil.copytree(first / "m", other / "m")
    with pytest.raises(OutputError, match="other holds no run"):
        differing_places(first, other)
    OutputFolder(other).run_id("evolve")
    with pytest.raises(OutputError, match="other holds a run of 'evolve', and none of guide"):
        differing_places(first, other)
    OutputFolder(empty).run_id("guide")
    with pytest.raises(OutputError, match="holds no mission"):
        differing_places(first, empty)
