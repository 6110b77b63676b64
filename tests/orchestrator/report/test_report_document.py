"""report.json: it fits its schema, and its figures are those of the measurements."""

from __future__ import annotations

import json

import pytest
from measured_systems import EVOLVED, ONE_SENTENCE, PLAIN, system

from orchestrator.report.assessment import assess
from orchestrator.report.document import report_document
from orchestrator.report.figures import ReportFigures
from orchestrator.report.systems import MeasuredSystem
from tasks.validation import parse_json

SHORT = system("50 words", "prompt", 0.7, seed=9)
ENDS = system("end of turn alone", "vector", 0.8, seed=4)
SYSTEMS = (PLAIN, ONE_SENTENCE, SHORT, ENDS, EVOLVED)


def document(*systems: MeasuredSystem) -> dict:
    choices = {"start": "validation"}
    assessment = assess("quiet-1", systems or SYSTEMS, "evolved 1", "one sentence", 0.03, 7, 2, choices)
    made = json.loads(json.dumps(report_document(assessment), allow_nan=False))
    assert parse_json(ReportFigures, json.dumps(made)).verdict == made["verdict"]
    return made


def test_the_figures_are_those_of_the_plain_model_and_of_the_winner() -> None:
    made = document()
    zero, best = made["test"]["zero"], made["test"]["best"]
    assert PLAIN.test is not None and EVOLVED.test is not None
    assert (zero["n"], zero["correct"], best["correct"]) == (300, 200, 200)
    assert zero["mean_tokens"] == pytest.approx(sum(PLAIN.test.tokens) / 300)
    assert best["fitness"] == EVOLVED.test.fitness
    low, high = zero["mean_tokens_interval"]
    assert low < zero["mean_tokens"] < high
    low, high = zero["share_correct_interval"]
    assert (low, high) == (pytest.approx(0.6114, abs=1e-3), pytest.approx(0.7175, abs=1e-3))
    assert made["validation"]["zero"]["n"] == 300


def test_it_says_what_was_shown_and_how_often_the_test_set_was_used() -> None:
    made = document()
    assert made["verdict"] == made["conclusion"]["sentences"][0]
    assert made["conclusion"]["outcome"] == "win" and made["conclusion"]["measured_on"] == "test"
    assert made["test_uses"] == 2 and made["start"] == "one sentence" and made["winner"] == "evolved 1"
    assert made["choices"] == {"start": "validation", "winner": "validation"}
    assert [pair["against"] for pair in made["comparisons"]] == [
        "none",
        "one sentence",
        "50 words",
        "end of turn alone",
    ]
    assert all(pair["non_inferiority"]["margin"] == 0.03 for pair in made["comparisons"])
