"""Two systems on the same questions, by pairs."""

from __future__ import annotations

from dataclasses import replace

from measured_book import measured

from orchestrator.evolve.systems import Measurement
from orchestrator.report.paired import pair, paired_sentence


def test_each_answer_meets_its_own_question_whatever_the_order() -> None:
    before = Measurement(("a", "b", "c"), (100, 50, 30), (True, False, True), (True,) * 3, (False,) * 3)
    after = Measurement(("d", "c", "b", "a"), (9, 10, 50, 60), (True, True, True, True), (True,) * 3 + (False,), ())
    found = pair(before, after, 0.05, seed=1)
    assert (found.change.gained, found.change.lost, found.change.count) == (1, 1, 3)
    assert (found.ratio.before, found.ratio.after) == (60.0, 40.0)
    assert not found.loss.is_shown


def test_a_loss_within_the_margin_is_excluded_by_enough_questions() -> None:
    plain, shorter = measured(1.0), measured(0.5, lost=2)
    assert pair(plain, shorter, 0.05, seed=1).loss.is_shown
    assert not pair(plain, shorter, 0.005, seed=1).loss.is_shown
    assert "a loss of 5 points is excluded" in paired_sentence(pair(plain, shorter, 0.05, seed=1), "it")
    # and an answer that is cut counts as lost
    assert pair(plain, replace(shorter, whole=(False,) * 300), 0.05, seed=1).change.after == 0
