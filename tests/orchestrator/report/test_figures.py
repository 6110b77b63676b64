"""report.json is read as what it was written from."""

from __future__ import annotations

import json

from measured_systems import EVOLVED, ONE_SENTENCE, PLAIN, SHORT_BUT_WRONG

from orchestrator.report.assessment import assess
from orchestrator.report.document import report_document
from orchestrator.report.figures import FrontFile, ReportFigures
from orchestrator.report.front import front_document
from tasks.validation import parse_json


def test_the_figures_are_those_that_were_written() -> None:
    assessment = assess("r", [PLAIN, ONE_SENTENCE, SHORT_BUT_WRONG, EVOLVED], "evolved 1", "none", 0.03, 1)
    document = report_document(assessment)
    read = parse_json(ReportFigures, json.dumps(document))
    assert read.verdict == document["verdict"]
    assert read.measured.best.mean_tokens == document["test"]["best"]["mean_tokens"]
    assert [pair.better_p for pair in read.comparisons] == [pair["better_p"] for pair in document["comparisons"]]
    assert [one.name for one in read.all_systems] == [
        one["name"] for one in (*document["systems"], *document["rivals"])
    ]
    assert read.systems[1].measured_on("validation") == read.systems[1].validation
    points = parse_json(FrontFile, json.dumps(front_document(assessment))).points
    assert [point.is_winner for point in points] == [point.name == "evolved 1" for point in points]
