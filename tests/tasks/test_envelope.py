"""State files: their version and checksum, and what is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest

from tasks.envelope import VERSION, checked_sealed, parse_sealed, sealed_text, unsealed
from tasks.validation import InvalidData

CONTENT = {
    "generation": 3,
    "deltas": {"0": 1.0, "10": -0.5, "2": 1},
    "scratchpad": "ü\u2028",
    "best": None,
    "rows": [1.5],
}


def test_what_is_sealed_is_read_again_as_it_was() -> None:
    text = sealed_text(CONTENT)
    assert json.dumps(unsealed(text)) == json.dumps(CONTENT)
    assert parse_sealed(dict[str, Any], text.encode()) == CONTENT == checked_sealed(dict[str, Any], text)
    assert list(json.loads(text)) == ["version", *CONTENT, "checksum"]


def test_numbers_as_names_and_tuples_are_sealed_as_json_has_them() -> None:
    assert unsealed(sealed_text({"b": {1: "x", 10: "y", 2: ("z",)}})) == {"b": {"1": "x", "10": "y", "2": ["z"]}}


def test_another_layout_is_no_damage() -> None:
    content = json.loads(sealed_text(CONTENT))
    assert unsealed(json.dumps(dict(reversed(content.items())), separators=(",", ":"))) == CONTENT


@pytest.mark.parametrize(
    "change",
    [
        lambda whole: whole | {"generation": 4},
        lambda whole: whole | {"deltas": {"0": 1.0, "10": 0.5, "2": 1}},
        lambda whole: {name: value for name, value in whole.items() if name != "best"},
        lambda whole: whole | {"more": 1},
        lambda whole: whole | {"checksum": "0" * 64},
        lambda whole: whole | {"checksum": 0},
    ],
)
def test_changed_content_is_refused_and_says_how_to_go_on(change: Callable[[Any], Any]) -> None:
    with pytest.raises(InvalidData, match=r"its checksum is wrong: .*restore it from a copy.*delete its entry"):
        unsealed(json.dumps(change(json.loads(sealed_text(CONTENT)))))


def test_a_file_of_a_newer_program_is_refused_whatever_its_checksum() -> None:
    for checksum in ({}, {"checksum": "of another kind"}):
        with pytest.raises(InvalidData, match=rf"it has version {VERSION + 1} .* knows version {VERSION}: use a newer"):
            unsealed(json.dumps({"version": VERSION + 1, **CONTENT, **checksum}))


def test_a_file_that_a_person_has_written_or_corrected_is_taken_as_it_is() -> None:
    assert unsealed(json.dumps(CONTENT)) == CONTENT
    assert unsealed(json.dumps({"version": VERSION, **CONTENT})) == CONTENT


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not JSON"), ("{", "not JSON"), (b"\xff", "not JSON"), ('{"a": NaN}', "NaN is not a number of JSON"),
        ('{"a": -Infinity}', "not a number of JSON"), ("[1]", "not a JSON object"), ("[" * 100_000, "not JSON"),
        ('{"version": "1"}', "version: "), ('{"version": true}', "version: "), ('{"version": 0}', "version: "),
        ('{"a": ' + "9" * 5000 + "}", "not JSON"),
    ],
)  # fmt: skip
def test_what_is_no_state_file_is_refused_in_one_line(text: str | bytes, reason: str) -> None:
    with pytest.raises(InvalidData, match=reason) as error:
        unsealed(text)
    assert "\n" not in str(error.value)


def test_a_number_that_is_not_finite_is_neither_written_nor_read() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        sealed_text({"a": math.nan})
    with pytest.raises(InvalidData, match="too large"):
        parse_sealed(dict[str, float], '{"a": 1e999}')
