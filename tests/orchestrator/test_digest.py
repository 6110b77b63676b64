"""Which figures of a run are looked at first."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from statistics import fmean

from measured_systems import EVOLVED, ONE_SENTENCE, PLAIN, system

from orchestrator.digest import NO_REPORT, NO_VALIDATION, digest_of, rival_of
from orchestrator.report.assessment import assess
from orchestrator.report.document import report_document
from orchestrator.report.figures import ReportFigures
from orchestrator.report.systems import MeasuredSystem
from orchestrator.results import RunResults
from tasks.validation import parse_json


def figures(*systems: MeasuredSystem) -> ReportFigures:
    return parse_json(ReportFigures, json.dumps(report_document(assess("r", systems, "evolved 1", "none", 0.03, 1))))


def test_the_rival_is_the_one_that_the_first_sentence_names() -> None:
    equal = system("evolved 1", "evolved", 0.6)
    shown = figures(PLAIN, ONE_SENTENCE, system("better by luck", "vector", 0.62, gained=30), equal)
    assert shown.conclusion.rival is not None and shown.conclusion.rival in shown.verdict
    found = rival_of(shown)
    assert found is not None and found[0].name == shown.conclusion.rival


def test_where_the_vector_wins_the_rival_is_the_best_one() -> None:
    shown = figures(PLAIN, ONE_SENTENCE, system("worse", "prompt", 0.9, lost=50), EVOLVED)
    assert shown.conclusion.outcome == "win" and shown.conclusion.rival is None
    found = rival_of(shown)
    assert found is not None and found[0].name == "one sentence"


def test_without_a_validation_set_the_figures_are_of_the_training_set(finished_run: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(finished_run, tmp_path / "copy")
    (folder / "report.json").unlink()
    digest = digest_of(RunResults.open(folder))
    training = json.loads((folder / "answers.json").read_text())[0]
    assert (digest["measured_on"], digest["outcome"], digest["questions"]) == ("training", None, 4)
    assert digest["tokens_before"] == fmean(one["tokens"] for one in training["before"])
    assert digest["tokens_after"] == fmean(one["tokens"] for one in training["after"])
    # A conclusion that was lost is not taken for one that there never was
    assert digest["verdict"] == NO_REPORT
    (folder / "answers.json").write_text(json.dumps([training]))
    assert digest_of(RunResults.open(folder))["verdict"] == NO_VALIDATION
