"""What is done with questions that are too long for the target."""

from __future__ import annotations

import pytest

from orchestrator.evolve.questions import apply_too_long
from orchestrator.runs.jobs import LongPrompts
from orchestrator.settings import SettingsError
from tasks.records import Example

SETS = ("training", "validation")
ROWS = {which: [Example(f"{which}{i}", "a long context", "why?", "so") for i in range(2)] for which in SETS}
FOUND = LongPrompts(8_127, 64, {"training1": 9_312, "validation0": 10_000})


def test_an_error_names_each_with_its_length_and_says_what_to_do() -> None:
    with pytest.raises(SettingsError) as raised:
        apply_too_long("error", ROWS, FOUND, lambda line: None)
    text = str(raised.value)
    assert "8,127 tokens" in text and "training1 (9,312 tokens), validation0 (10,000 tokens)" in text
    assert "CONFIG_TOO_LONG" in text and '"drop"' in text


def test_what_is_dropped_is_said() -> None:
    said: list[str] = []
    kept = apply_too_long("drop", ROWS, FOUND, said.append)
    assert {which: [row.id for row in rows] for which, rows in kept.items()} == {
        "training": ["training0"], "validation": ["validation1"],
    }  # fmt: skip
    assert len(said) == 1 and "training1 (9,312 tokens)" in said[0]
    with pytest.raises(SettingsError, match="no question to learn from"):
        apply_too_long("drop", ROWS, LongPrompts(1, 64, {"training0": 2, "training1": 2}), said.append)
