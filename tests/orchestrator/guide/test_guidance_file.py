"""A file of experiences: what a person wrote begins a history, an edit is a step that says so, and faults are named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.guide.guidance_file import GuidanceError, guidance_text, read_guidance
from tasks.guide.experiences import edited_guidance, first_guidance


def test_a_file_of_a_person_begins_its_history_at_its_step(tmp_path: Path) -> None:
    path = tmp_path / "guidance.json"
    path.write_text(
        json.dumps({"cabinet": {"step": 3, "updated_at": "then", "experiences": {"G10": "ten", "G2": "two"}}})
    )
    stored = read_guidance(path)["cabinet"]
    assert stored.by_hand
    assert list(stored.guidance.experiences) == ["G2", "G10"]
    assert [(line.step, line.updated_at) for line in stored.guidance.metadata.history] == [(3, "then")]
    assert stored.guidance.metadata.highest == 10


def test_what_a_program_wrote_is_read_as_it_was(tmp_path: Path) -> None:
    path, guidance = tmp_path / "guidance.json", first_guidance({"G10": "ten", "G2": "two"}, "then")
    path.write_text(guidance_text({"cabinet": guidance}))
    stored = read_guidance(path)["cabinet"]
    assert (stored.guidance, stored.by_hand) == (guidance, False)


def test_an_edit_by_hand_is_a_step_when_it_says_so(tmp_path: Path) -> None:
    guidance = edited_guidance(first_guidance({"G2": "two", "G10": "ten"}, "then"), {"G2": "two"}, 4, "now", "r1")
    path = tmp_path / "guidance.json"
    content = json.loads(guidance_text({"cabinet": guidance}))
    content["cabinet"]["experiences"] = {"G2": "a better rule", "G12": "mine"}
    path.write_text(json.dumps(content))
    with pytest.raises(GuidanceError, match="not those of step 4 as its metadata has them"):
        read_guidance(path)

    content["cabinet"]["step"] = 7
    path.write_text(json.dumps(content))
    stored = read_guidance(path)["cabinet"]
    assert stored.by_hand
    assert [line.step for line in stored.guidance.metadata.history] == [0, 4, 7]
    entries = stored.guidance.metadata.entries
    assert {key: entry.removed for key, entry in entries.items()} == {"G2": False, "G10": True, "G12": False}
    assert (entries["G2"].text, stored.guidance.metadata.highest) == ("a better rule", 12)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "not JSON"),
        ('{"cabinet": {"step": 1, "updated_at": "", "experiences": {}}}', "experiences is empty"),
        ('{"cabinet": {"step": 1, "updated_at": "", "experiences": {"G01": "x"}}}', "'G01' is not G and a number"),
        (
            '{"cabinet": {"step": 1, "updated_at": "", "experiences": {"G1": "x\\ny"}}}',
            "experiences.G1: the text is not",
        ),
        ('{"cabinet": {"step": 1, "updated_at": "", "experiences": {"G1": "x", "G1": "y"}}}', "'G1' occurs twice"),
        ('{"cabinet": {"step": -1, "updated_at": "", "experiences": {"G1": "x"}}}', "step: -1 must be at least 0"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "guidance.json"
    path.write_text(text)
    with pytest.raises(GuidanceError, match=reason) as refused:
        read_guidance(path)
    assert str(refused.value).startswith(str(path)) and "\n" not in str(refused.value)


def test_two_spellings_of_one_mission_are_refused(tmp_path: Path) -> None:
    entry = {"step": 1, "updated_at": "", "experiences": {"G1": "x"}}
    path = tmp_path / "guidance.json"
    path.write_text(json.dumps({"\u00e9": entry, "e\u0301": entry}))
    with pytest.raises(GuidanceError, match="'é' occurs twice, in two spellings of Unicode"):
        read_guidance(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(GuidanceError, match=r"none\.json cannot be read: there is no such file"):
        read_guidance(tmp_path / "none.json")
