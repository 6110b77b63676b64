"""`orchestrator answers`: what a person reads of both answers."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from orchestrator.report.side_by_side import answers_table
from orchestrator.report.statistics import Comparison, JudgedAnswer


def graded(example: str, tokens: int, is_correct: bool, text: str) -> JudgedAnswer:
    return JudgedAnswer(
        example, tokens, is_correct, text, f"question {example}?", f"gold {example}", f"reason {example}"
    )


BEFORE = (
    graded("kept", 40, True, "It is long but right."),
    graded("gone", 30, True, "It was right."),
    graded("won", 20, False, "It was wrong."),
    graded("same", 5, False, "Unmoved."),
)
AFTER = (
    graded("kept", 4, True, "Right."),
    graded("gone", 3, False, "Now wrong."),
    graded("won", 2, True, "Now right."),
    graded("same", 5, False, "Unmoved."),
)
COMPARISON = Comparison("training set", BEFORE, AFTER)


@pytest.mark.parametrize(
    ("only", "shown"),
    [("all", "kept gone won same"), ("changed", "kept gone won"), ("lost", "gone"), ("gained", "won")],
)
def test_only_the_chosen_examples_are_shown(only, shown: str) -> None:
    table = answers_table(COMPARISON, 100, only)
    assert [one for one in ("kept", "gone", "won", "same") if f"question {one}?" in table] == shown.split()
    assert table.startswith(f"training set: 4 questions, {len(shown.split())} shown ({only})")


def test_both_answers_stand_side_by_side_with_tokens_and_verdict() -> None:
    lines = answers_table(COMPARISON, 100, "lost").splitlines()
    heads = next(line for line in lines if "[before]" in line)
    texts = next(line for line in lines if "It was right." in line)
    assert "LOST" in lines[2] and "gone" in lines[2]
    assert "30 tokens, right" in heads and "3 tokens, WRONG" in heads
    assert "Now wrong." in texts
    assert any("judge: reason gone" in line for line in lines)


def test_in_a_narrow_terminal_the_answers_stand_one_under_the_other() -> None:
    lines = answers_table(COMPARISON, 50, "lost").splitlines()
    before, after = (next(i for i, line in enumerate(lines) if mark in line) for mark in ("[before]", "[after]"))
    assert before < lines.index("It was right.") < after < lines.index("Now wrong.")


@settings(deadline=None)
@given(st.text(max_size=200), st.integers(1, 160))
def test_whatever_a_model_writes_no_line_is_too_long_and_nothing_acts(text: str, width: int) -> None:
    # given an answer, a question, a gold and an explanation of any characters
    wild = JudgedAnswer("wild", 1, True, text, text, text, text)
    # when it is laid out
    table = answers_table(Comparison("wild set", (wild,), (wild,)), width)
    # then the terminal gets only lines that fit and characters that print
    assert all(cell_len(line) <= max(width, 24) for line in table.split("\n"))
    assert "\x1b" not in table and "\r" not in table and "\u202e" not in table


def test_an_empty_answer_is_said_to_be_empty() -> None:
    silent = graded("silent", 0, False, "")
    assert "(no text)" in answers_table(Comparison("set", (silent,), (silent,)), 80)


def test_an_unknown_choice_is_refused() -> None:
    with pytest.raises(ValueError, match="'best'"):
        answers_table(COMPARISON, 80, "best")
