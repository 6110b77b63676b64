"""The measured systems of a run become one assessment, or an error that names what is wrong with them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from measured_systems import EVOLVED, ONE_SENTENCE, PLAIN, SHORT_BUT_WRONG, measurement, system

from orchestrator.report.assessment import Assessment, assess
from orchestrator.report.systems import MeasuredSystem

ENDS = system("end of turn alone", "vector", 0.8, seed=4)
SECOND = system("evolved 2", "evolved", 0.5, seed=6)
SYSTEMS = (PLAIN, ONE_SENTENCE, SHORT_BUT_WRONG, ENDS, EVOLVED, SECOND)


def assessed(*systems: MeasuredSystem, winner: str = "evolved 1") -> Assessment:
    return assess("quiet-1", systems or SYSTEMS, winner, "one sentence", 0.03, seed=7, test_uses=2)


def test_prompts_and_vectors_are_rivals_and_other_evolved_systems_are_not() -> None:
    pairs = assessed().conclusion.pairs
    assert [pair.against for pair in pairs] == ["none", "one sentence", "final answer only", "end of turn alone"]


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
        ((PLAIN, ONE_SENTENCE), "one sentence", "not one of the evolved"),
        ((PLAIN, EVOLVED), "evolved 9", "not one of the evolved"),
        ((EVOLVED,), "evolved 1", "0 systems are the plain model"),
    ],
)
def test_systems_without_a_report_are_refused(systems: tuple[MeasuredSystem, ...], winner: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        assessed(*systems, winner=winner)
