"""Stage-A's files become tickets, and all bad lines and duplicates are named at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from guide_values import stage_a_row, write_rows

from orchestrator.guide.stage_a import read_tickets
from orchestrator.settings import SettingsError


def refused(folder: Path, rows: list[dict[str, Any] | str]) -> list[str]:
    path = str(write_rows(folder / "tickets.jsonl", rows))
    with pytest.raises(SettingsError) as error:
        read_tickets([path], ["cabinet"])
    return [problem.replace(path, "FILE") for problem in error.value.problems]


def test_every_field_of_a_ticket_is_kept_and_images_come_by_number(tmp_path: Path) -> None:
    images = {"image_10": "ten", "image_2": "two", "image_1": "one"}
    rows = [stage_a_row("b", per_image=images, label_source="audit", label_timestamp="2025-11-03T10:00:00Z"),
            stage_a_row("a", label="fail")]  # fmt: skip
    tickets, _ = read_tickets([str(write_rows(tmp_path / "a.jsonl", rows))], ["cabinet"])
    a, b = tickets["cabinet"]
    assert (a.group_id, a.label, a.label_source) == ("a", "fail", None)
    assert (b.label_source, b.label_timestamp) == ("audit", "2025-11-03T10:00:00Z")
    assert list(b.per_image.items()) == [("image_1", "one"), ("image_2", "two"), ("image_10", "ten")]


def test_all_bad_lines_and_duplicates_are_named_at_once(tmp_path: Path) -> None:
    rows = [
        stage_a_row("t1"),
        "{not json",
        stage_a_row("t2", label=None, per_image={"img": "x", "image_1": "", "image_01": "y"}),
        stage_a_row("t3", label="maybe", stage_a_complete="yes"),
        stage_a_row("t1", label="fail"),
        "",
        '{"group_id": "t4", "group_id": "t5"}',
        stage_a_row("t6", per_image={}),
        stage_a_row("t7", mission="tower"),
        stage_a_row("t8", mission="tower"),
    ]
    assert refused(tmp_path, rows) == [
        "stage_a_paths: FILE: line 2: invalid JSON at column 2: Expecting property name enclosed in double quotes",
        "stage_a_paths: FILE: line 3: label is missing; per_image.img: the key is not image_ and a number; "
        "per_image.image_1 is empty; per_image.image_01: is the same image as image_1",
        "stage_a_paths: FILE: line 4: label is 'maybe', not 'pass' or 'fail'; stage_a_complete is not true or false",
        "stage_a_paths: FILE: line 5: group_id 't1' of 'cabinet' is already at FILE:1",
        "stage_a_paths: FILE: line 7: invalid JSON: 'group_id' occurs twice",
        "stage_a_paths: FILE: line 8: per_image is empty",
        "stage_a_paths: 2 tickets of mission 'tower', which is not under missions (the first: FILE:9)",
    ]


def test_of_very_many_bad_lines_each_is_still_named(tmp_path: Path) -> None:
    lines = refused(tmp_path, ["1"] * 60 + [stage_a_row("a")] + ["1"])
    assert len(lines) == 51
    assert lines[-1] == "stage_a_paths: FILE: 11 more malformed lines: 51-60, 62"


def test_a_file_that_is_not_there_or_comes_twice_is_told_with_the_rest(tmp_path: Path) -> None:
    twice = [str(write_rows(tmp_path / "tickets.jsonl", [stage_a_row("a")]))] * 2
    with pytest.raises(SettingsError) as error:
        read_tickets([*twice, str(tmp_path / "none.jsonl")], ["cabinet"])
    assert [line.replace(str(tmp_path), "") for line in error.value.problems] == [
        "stage_a_paths: /none.jsonl: cannot be read: No such file or directory",
        "stage_a_paths: /tickets.jsonl: line 1: group_id 'a' of 'cabinet' is already at /tickets.jsonl:1",
    ]
