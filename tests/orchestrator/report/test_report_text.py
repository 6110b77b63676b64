"""The closing report as text: the order of its systems, and text of others that cannot act on a terminal."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st
from measured_systems import EVOLVED, ONE_SENTENCE, PLAIN, SHORT_BUT_WRONG

from orchestrator.report.assessment import Assessment, assess
from orchestrator.report.layout import wrap
from orchestrator.report.statistics import Comparison, JudgedAnswer
from orchestrator.report.summary import FinalReport, ResourceUsage, final_report
from orchestrator.report.systems import MeasuredSystem
from tasks.escape import escape_control
from tasks.plan import Evaluations


def answers(tokens: list[int], rights: str) -> tuple[JudgedAnswer, ...]:
    return tuple(
        JudgedAnswer(str(i), count, right == "+", "", "", "", "")
        for i, (count, right) in enumerate(zip(tokens, rights, strict=True))
    )


def report(assessment: Assessment | None) -> str:
    usage = ResourceUsage(192.0, Evaluations(20, 4, 6), 31, 5000, 40213, 128, 900, 0.0123, 1.5, 0.05)
    comparison = Comparison("training set", answers([100, 80, 60], "+-+"), answers([50, 40, 30], "++-"), 0.4, 0.55)
    deltas, words = {"10": -1.0, "2": 0.5}, {"10": "\x1b[31mfinance"}
    made = FinalReport("quiet-1", 3, "g2", deltas, words, (comparison,), "rules", "gpt-x", usage, assessment=assessment)
    return final_report(made, random.Random(0))


def assessed(*systems: MeasuredSystem) -> Assessment:
    return assess("quiet-1", systems, "evolved 1", "one sentence", 0.03, seed=7, test_uses=1)


def test_the_first_line_is_what_was_shown_and_the_figures_follow() -> None:
    assessment = assessed(PLAIN, ONE_SENTENCE, SHORT_BUT_WRONG, EVOLVED)
    text = report(assessment)
    assert text.split("\n\n")[0].replace("\n", " ") == assessment.conclusion.headline
    assert report(None).startswith("Run quiet-1")
    for figure in ("80.0 -> 40.0", "-50.0 to -30.0", "2 -> 2 of 3", "p = 1.00", "0.4000 -> 0.5500", "5,000 tokens"):
        assert figure in text
    assert "\x1b" not in text and "\\x1b[31mfinance" in text


@settings(deadline=None)
@given(st.text(), st.integers(2, 40))
def test_nothing_that_acts_on_a_terminal_is_left_and_wrapping_loses_nothing(text: str, width: int) -> None:
    shown = escape_control(text, keep_lines=True)
    assert all(character.isprintable() or character == "\n" or character.isspace() for character in shown)
    assert not set(shown) & {"\x1b", "\r", "\x07", "\x9b", "\u202e", "\u2066", "\u2028"}
    assert "".join(wrap(shown, width)).replace(" ", "") == shown.replace(" ", "").replace("\n", "")
