"""Three lines are read by their form alone: a verdict is a whole word, a confidence a plain number."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.guide.verdict_lines import (
    THREE_LINES_REGEX,
    Malformed,
    ThreeLines,
    parse_confidence,
    parse_three_lines,
    parse_verdict,
    three_lines_regex,
)


def test_three_lines_are_read_whatever_the_space_and_case() -> None:
    plain = "Verdict: fail\nReason: 图2: the lid is open\nConfidence: 0.85"
    wanted = ThreeLines("fail", "图2: the lid is open", 0.85)
    assert parse_three_lines(plain) == wanted
    assert parse_three_lines(f"\r\n  {plain}  \r\n\r\n".replace("\n", "\r\n\t \r\n")) == wanted
    spaced = "VERDICT ： 未 通 过。\nreason：图2: the lid is open\nConFidence:85 %"
    assert parse_three_lines(spaced) == wanted


@pytest.mark.parametrize("text", ["pass", "PASS", "Pass.", "ｐａｓｓ！", "通过", "通过。", "通 过！", " p a s s ! "])
def test_words_for_pass(text: str) -> None:
    assert parse_verdict(text) == "pass"


@pytest.mark.parametrize("text", ["fail", "FAIL!", "不通过", "未通过", "不通过。", "ＦＡＩＬ．", "未 通 过"])
def test_words_for_fail(text: str) -> None:
    assert parse_verdict(text) == "fail"


@pytest.mark.parametrize(
    "text",
    ["", ".", "passed", "not pass", "pass/fail", "不不通过", "没通过", "不合格", "通过了", "failed", "pass!!", "*pass*",
     "pass (0.9)", "unpass", "ok", "true", "pаss"],  # the last has a Cyrillic letter
)  # fmt: skip
def test_no_other_word_is_a_verdict(text: str) -> None:
    assert parse_verdict(text) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0), ("1", 1), ("1.0", 1), ("0.25", 0.25), (".5", 0.5), ("1.", 1), ("0%", 0), ("1%", 0.01), ("0.5%", 0.005),
     ("100 %", 1), ("2", 0.02), ("90", 0.9), ("100", 1), ("000.5", 0.5)],
)  # fmt: skip
def test_confidences(text: str, value: float) -> None:
    assert parse_confidence(text) == value


@pytest.mark.parametrize(
    "text",
    ["", "1.5", "1.01", "2.0", "90.5", "101", "100.1%", "-0.1", "+0.5", "nan", "NaN", "inf", "high", "0,9", "1e-1",
     "9/10", "0.9 (high)", "０.９", "９０", "90％", "%", ".", "0.9.", "0.9%%", "½", "9" * 5000, "1_0", "0x1"],
)  # fmt: skip
def test_what_is_no_confidence(text: str) -> None:
    assert parse_confidence(text) is None


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "0 lines, not 3"),
        ("Verdict: pass", "1 lines, not 3"),
        ("Verdict: pass\nReason: a\nConfidence: 1\nThanks!", "4 lines, not 3"),
        ("Verdict: pass\nReason: a\u2028b\nConfidence: 1", "4 lines, not 3"),
        ("Reason: a\nVerdict: pass\nConfidence: 1", "no line Verdict: at its place"),
        ("**Verdict:** pass\nReason: a\nConfidence: 1", "no line Verdict: at its place"),
        ("Verdict: pass\nReason - a\nConfidence: 1", "no line Reason: at its place"),
        ("Verdict: pass\nReaſon: a\nConfidence: 1", "no line Reason: at its place"),
        ("Verdict: pass\nReason: \u3000\nConfidence: 1", "the reason is empty"),
        ("Verdict: maybe\nReason: a\nConfidence: 1", "the verdict is neither pass nor fail"),
        ("Verdict: pass\nReason: a\nConfidence: sure", "the confidence is no number from 0 to 1 or 0 to 100 %"),
    ],
)
def test_the_first_fault_is_named(text: str, fault: str) -> None:
    assert parse_three_lines(text) == Malformed(fault)


@given(st.text() | st.text("Verdict: pasfilRonCc通过不未\n：:0123456789.%", max_size=80))
def test_any_text_is_either_read_or_malformed(text: str) -> None:
    assert isinstance(parse_three_lines(text), ThreeLines | Malformed)
    parse_verdict(text)
    parse_confidence(text)


@given(st.from_regex(THREE_LINES_REGEX, fullmatch=True))
def test_all_that_a_servers_grammar_lets_through_is_read(text: str) -> None:
    found = parse_three_lines(text)
    assert isinstance(found, ThreeLines)
    assert 1 <= len(found.reason) <= 160


def test_a_shorter_reason_can_be_demanded() -> None:
    short = re.compile(three_lines_regex(20))
    assert short.fullmatch(f"Verdict: pass\nReason: {'a' * 20}\nConfidence: 0.90")
    assert not short.fullmatch(f"Verdict: pass\nReason: {'a' * 21}\nConfidence: 0.90")
    assert not short.fullmatch("Verdict: pass\nReason: a\nb\nConfidence: 0.90")
