"""report.json and front.json: their figures are those of the measurements, and they fit the schema of their types."""

from __future__ import annotations

import json
from dataclasses import asdict

import jsonschema
import pytest
from measured_book import EVOLVED, ONE_SENTENCE, VECTOR, book, report, system
from pydantic import TypeAdapter

from orchestrator.report.model import FrontFile, ReportFile, front_file, plot_points
from tasks.common.validation import parse_json


def test_a_report_has_one_form_and_the_figures_of_the_answers() -> None:
    written = json.loads(json.dumps(asdict(report()), allow_nan=False))
    jsonschema.validate(written, TypeAdapter(ReportFile).json_schema())
    assert parse_json(ReportFile, json.dumps(written)) == report()
    assert (written["goal"], written["margin"], written["winner"]) == ("shortest", 0.05, EVOLVED)
    assert written["conclusion"]["sentence"] == written["conclusion"]["sentences"][0]
    assert written["conclusion"]["outcome"] == "deploy" and written["conclusion"]["rival"] == "first sentence"
    by_name = {one["name"]: one for one in written["systems"]}
    assert [one["kind"] for one in written["systems"]] == [one.kind for one in book().systems]
    cut, winner = by_name["max_tokens 24"], by_name[EVOLVED]
    figures = {name: cut["test"][name] for name in ("n", "right", "whole", "correct")}
    assert figures == {"n": 100, "right": 60, "whole": 40, "correct": 24}
    assert (cut["training"], cut["max_tokens"], winner["passed"], cut["passed"]) == (None, 24, True, False)
    answered = book().system(EVOLVED).on("test")
    assert winner["test"]["mean_tokens"] == pytest.approx(sum(answered.tokens) / 100)
    assert winner["deltas"] == [1.5, -0.75, 0.0, -2.75, 0.5]
    for name in ("mean_tokens", "correct"):
        low, high = winner["validation"][f"{name}_interval"]
        assert low < winner["validation"][name] < high
    low, high = winner["validation"]["correct_interval"]  # Wilson's for 180 of 300
    assert (low / 300, high / 300) == (pytest.approx(0.5436, abs=1e-3), pytest.approx(0.6539, abs=1e-3))


def test_the_front_has_what_no_other_beats_on_the_training_set() -> None:
    longer = system("80 words", "prompt", 1.4, "tr or", "80 words")  # as right as the plain model
    made = report(book(longer))
    written = json.loads(json.dumps(asdict(front_file(made))))
    jsonschema.validate(written, TypeAdapter(FrontFile).json_schema())
    members = written["members"]
    assert [one["name"] for one in members] == ["one sentence: random 3", EVOLVED]
    assert members[1]["deltas"] == [1.5, -0.75, 0.0, -2.75, 0.5]
    assert (members[1]["end"], members[1]["passed"], written["winner"]) == ("sentence", True, EVOLVED)
    assert members[1]["test"]["correct"] == 60 and members[0]["test"] is None
    # What passed and what won can be chosen, also where the training set has put it off the front
    prompt = system(ONE_SENTENCE, "prompt", 0.7, "tr or va", ONE_SENTENCE, lost=12)
    off = report(book(prompt, winner=VECTOR, passed=(ONE_SENTENCE, VECTOR)))
    others = {one.name: one for one in front_file(off).members}
    assert set(others) == {"one sentence: random 3", EVOLVED, ONE_SENTENCE, VECTOR}
    assert others[ONE_SENTENCE].passed and not off.system(VECTOR).is_on_front
    points = {one["name"]: one for one in plot_points(made)}
    assert {"plain", ONE_SENTENCE, VECTOR, EVOLVED} <= set(points) and "first sentence" not in points
    assert points[ONE_SENTENCE]["correct"] == 0.48 and not points[VECTOR]["is_on_front"]
