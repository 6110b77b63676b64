"""Candidates and their signals: a malformed answer is kept, has no signals, and no vote."""

from __future__ import annotations

from guide_records import answers, reply, ticket

from tasks.guide.candidates import Signals, read_candidate
from tasks.guide.signals import compute_signals


def test_an_answer_is_read_as_three_lines() -> None:
    found = read_candidate(3, 1, 2, 9, reply("不通过", 0.25), 21, "stop")
    assert (found.format_ok, found.verdict, found.reason, found.confidence) == (
        True,
        "fail",
        "as the images show",
        0.25,
    )
    assert (found.index, found.cell, found.sample, found.seed, found.warnings) == (3, 1, 2, 9, ())


def test_a_malformed_answer_is_kept_with_what_is_wrong() -> None:
    found = read_candidate(0, 0, 0, 1, "Verdict: pass", 4, "length")
    assert (found.format_ok, found.verdict, found.reason, found.confidence) == (False, None, None, None)
    assert found.text == "Verdict: pass"
    assert found.warnings == ("malformed: 1 lines, not 3", "cut: length")


def test_signals_count_the_valid_candidates_alone() -> None:
    candidates = answers(("pass", 0.9), ("fail", 0.4), None, ("pass", 0.7))
    found = compute_signals(ticket("pass"), candidates, store_confidence=True, enable_consistency=True)
    assert [signal.label_match for signal in found] == [True, False, None, True]
    assert [signal.self_consistency for signal in found] == [2 / 3, 1 / 3, None, 2 / 3]
    assert [signal.confidence for signal in found] == [0.9, 0.4, None, 0.7]
    assert {(signal.candidate_agreement, signal.label_trust) for signal in found} == {(None, None)}


def test_english_and_chinese_verdicts_are_the_same_verdict() -> None:
    found = compute_signals(
        ticket("fail"), answers(("未通过", 1), ("FAIL", 1)), store_confidence=False, enable_consistency=False
    )
    assert found == (Signals(label_match=True),) * 2
