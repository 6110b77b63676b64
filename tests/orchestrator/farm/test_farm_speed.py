"""The process that measures a target: its reply is read, and a failure is one line."""

from __future__ import annotations

import json
import sys

import pytest
from server_target import server_target

from orchestrator.farm import speed
from orchestrator.farm.speed import NotMeasured, measure_speed
from tasks.models import Example

REPLY = {"start_s": 9.0, "first_s": 0.5, "second_s": 0.25, "full_s": 0.5, "copies": 4, "tokens": [[7, 9]]}
QUESTIONS = [Example("1", "a page", "which?", "one")]


def measure(monkeypatch: pytest.MonkeyPatch, script: str) -> speed.Speed:
    monkeypatch.setattr(speed, "COMMAND", (sys.executable, "-c", script))
    return measure_speed(server_target(), ["Be brief."], QUESTIONS)


def test_what_is_asked_is_passed_on_and_all_but_the_answers_is_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    found = measure(
        monkeypatch,
        "import json, sys\n"
        "asked = json.load(sys.stdin)\n"
        "assert asked['questions'] == [['a page', 'which?']] and asked['target']['model'] == 'some/model'\n"
        f"print('''{json.dumps(REPLY)}''')",
    )
    assert (found.tokens, found.first_s, found.copies) == (((7, 9),), 0.5, 4)
    assert -1.25 < found.start_s < 8  # of this process, which began no server


@pytest.mark.parametrize(
    ("script", "reason"),
    [("raise SystemExit(1)", "does not answer"), ("print('{}')", "cannot be read"), ("print('no')", "cannot be read")],
)
def test_a_failure_is_one_line(monkeypatch: pytest.MonkeyPatch, script: str, reason: str) -> None:
    with pytest.raises(NotMeasured, match=reason):
        measure(monkeypatch, script)


def test_a_measurement_that_takes_too_long_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "LONGEST_S", 0.2)
    with pytest.raises(NotMeasured, match="longer than"):
        measure(monkeypatch, "import time; time.sleep(600)")
