"""Names of missions: each is a folder, and no two of them the same one."""

from __future__ import annotations

import unicodedata

import pytest

from orchestrator.guide.names import mission_name, mission_name_fault, mission_name_problems


@pytest.mark.parametrize("name", ["BBU安装方式检查（正装）", "a b", "x.y", "é" * 60])
def test_a_name_of_a_mission_is_one_of_a_folder(name: str) -> None:
    assert mission_name_fault(name) is None


@pytest.mark.parametrize(
    "name", ["", " ", ".a", "a/b", "a\\b", "a\nb", "a\x00b", "a\u2028b", "\ud800", "é" * 61, "report.html"]
)
def test_what_no_folder_can_be_called_is_refused(name: str) -> None:
    assert mission_name_fault(name)


def test_two_spellings_of_the_same_name_are_one_folder() -> None:
    composed, decomposed = "é", unicodedata.normalize("NFD", "é")
    assert mission_name(decomposed) == composed
    assert [name for name, _ in mission_name_problems([composed, decomposed, "E", "e"])] == [decomposed, "e"]
