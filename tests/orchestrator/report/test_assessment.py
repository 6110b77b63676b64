"""The measured systems of a run become one assessment, or an error that names what is wrong with them."""

from __future__ import annotations

import json
from dataclasses import replace

import jsonschema
import pytest
from measured_systems import EVOLVED, ONE_SENTENCE, PLAIN, SHORT_BUT_WRONG, measurement, system

from orchestrator.digest import rival_of
from orchestrator.report.assessment import Assessment, assess
from orchestrator.report.document import report_document, report_schema
from orchestrator.report.figures import ReportFigures
from orchestrator.report.ranking import ranking
from orchestrator.report.systems import MeasuredSystem
from tasks.validation import parse_json

ENDS = system("end of turn alone", "vector", 0.8, seed=4)
SECOND = system("evolved 2", "evolved", 0.5, seed=6)
SYSTEMS = (PLAIN, ONE_SENTENCE, SHORT_BUT_WRONG, ENDS, EVOLVED, SECOND)


def assessed(*systems: MeasuredSystem, winner: str = "evolved 1") -> Assessment:
    return assess("quiet-1", systems or SYSTEMS, winner, "one sentence", 0.03, seed=7, test_uses=2)


def test_prompts_and_vectors_are_rivals_and_other_evolved_systems_are_not() -> None:
    pairs = assessed().conclusion.pairs
    assert [pair.against for pair in pairs] == ["none", "one sentence", "final answer only", "end of turn alone"]


def test_a_vector_without_search_that_has_won_is_not_its_own_rival() -> None:
    # given a winner that is what the search started from
    ends = replace(ENDS, deltas=(0.0, 4.0))
    assessment = assessed(PLAIN, ONE_SENTENCE, SHORT_BUT_WRONG, ends, EVOLVED, winner="end of turn alone")
    # then it is neither compared with itself nor counted, also not by the correction of p values
    assert [pair.against for pair in assessment.conclusion.pairs] == ["none", "one sentence", "final answer only"]
    assert "It beats 0 of 2 rivals" in " ".join(assessment.conclusion.sentences)
    without = assessed(PLAIN, ONE_SENTENCE, SHORT_BUT_WRONG, replace(ends, kind="evolved"), winner="end of turn alone")
    assert assessment.conclusion.pairs == without.conclusion.pairs
    # and it is one row, with the star
    rows = [line for line in ranking(assessment) if "end of turn alone" in line]
    assert len(rows) == 1 and rows[0].startswith("* end of turn alone  vector")
    document = report_document(assessment)
    jsonschema.validate(document, report_schema())
    assert [one["name"] for one in document["systems"]] == ["none", "end of turn alone", "evolved 1"]
    assert [one["name"] for one in document["rivals"]] == ["one sentence", "final answer only"]
    # nor is the best rival the winner itself
    rival, _ = rival_of(parse_json(ReportFigures, json.dumps(document))) or (None, None)
    assert rival is not None and rival.name == "one sentence"


def test_every_other_system_is_compared_with_the_plain_model() -> None:
    assessment = assessed()
    assert set(assessment.over_plain) == {one.name for one in SYSTEMS} - {"none"}
    assert assessment.over_plain["one sentence"].ratio.ratio.value == pytest.approx(0.6, abs=0.01)
    assert assessment.over_plain["evolved 1"] == assessment.conclusion.pairs[0]


def test_repeats_of_the_winner_are_the_noise_floor() -> None:
    assert assessed().noise is None
    repeated = replace(EVOLVED, repeats=(measurement(0.42, seed=8), measurement(0.38, lost=1, seed=9)))
    noise = assessed(PLAIN, repeated).noise
    assert noise is not None and noise.repeats == 3 and noise.changed > 0


@pytest.mark.parametrize(
    ("systems", "winner", "message"),
    [
        ((PLAIN, EVOLVED, EVOLVED), "evolved 1", "the same name"),
        ((PLAIN, EVOLVED), "evolved 9", "not one of the systems"),
        ((EVOLVED,), "evolved 1", "0 systems are the plain model"),
    ],
)
def test_systems_without_a_report_are_refused(systems: tuple[MeasuredSystem, ...], winner: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        assessed(*systems, winner=winner)
