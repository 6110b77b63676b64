"""A number of an answer in the unit of the gold."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.judging.numbers import SCALES
from tasks.judging.rule import find_match, named_scale

MILLIONS = "What was the capital expenditure of Acme in FY2018 (in USD millions)?"
INCOME = "What was the net income of Acme in 2023?"
MARGIN = "What was the operating margin of Acme in 2023?"
CHANGE = "What was the change in sales?"


@pytest.mark.parametrize(
    ("question", "gold", "answer"),
    [
        # scales: of the question, written out, or full dollars
        (MILLIONS, "$1577.00", "Acme spent $1,577 million."),
        (MILLIONS, "$1577.00", "Capital expenditure was $1,577."),
        (MILLIONS, "$1577.00", "It was $1,577,000,000."),
        (MILLIONS, "$1577.00", "It was $1.577 billion."),
        (MILLIONS, "$1577.00", "It was $1,577,000 (in thousands)."),
        ("How much was it? Answer in USD billions.", "$8.70", "It was $8,738 million."),
        (INCOME, "$1.9 billion", "The net income was $1,900 million."),
        (INCOME, "$1,577,000,000", "The net income was $1,577 million."),
        (INCOME, "$1,577,000", "In thousands: the net income was $1,577."),
        (INCOME, "$8.70", "It was $8.70 per share."),
        # percent, fraction, basis points
        (MARGIN, "65.4%", "The margin is 0.654."),
        (MARGIN, "65.4%", "The margin is 65.4."),
        (MARGIN, "24.3", "The margin is 24.3%."),
        (MARGIN, "0.5%", "It changed by 50 basis points."),
        (MARGIN, "50 bps", "It changed by 0.5%."),
        ("What was the margin, in percent?", "0.5%", "It was 0.5."),
        ("What was the retention ratio?", "0.54", "It is 54%."),
        # signs in words and brackets
        (INCOME, "-$12.5 million", "Acme made a net loss of $12.5 million."),
        (INCOME, "-$12.5 million", "The result of Acme, Inc. was a loss of $12.5 million."),
        (INCOME, "-$12.5 million", "Net income was $(12.5) million."),
        (INCOME, "-$12.5 million", "Net income was −$12.5 million."),
        (INCOME, "-$12.5 million", "Net income was negative $12.5 million."),
        (CHANGE, "-5%", "Sales fell by 5%."),
        (CHANGE, "-5%", "It was a 5% decrease."),
        ("What was the net loss?", "-$12.5 million", "It was $12.5 million."),
        ("What was the net loss?", "$12.5 million", "The net loss was $(12.5) million."),
        ("By how much did sales decline?", "5%", "Sales declined by 5%."),
        (MILLIONS, "$1577.00", "Purchases of property (1,577)."),
    ],
)
def test_the_same_amount_in_another_unit_is_correct(question: str, gold: str, answer: str) -> None:
    assert find_match(question, gold, answer, 0.01) is not None


@pytest.mark.parametrize(
    ("question", "gold", "answer"),
    [
        (MILLIONS, "$1577.00", "It was $1,577 billion."),
        (MILLIONS, "$1577.00", "It was $1,577 thousand."),
        (MILLIONS, "$1577.00", "It was $1,577 (in thousands)."),
        ("How much was sold in 2 million homes?", "5", "It was 5 million."),
        (MARGIN, "65.4%", "It was $65.4 million."),
        (MARGIN, "0.5%", "It was 0.5."),  # a fraction: 50 %
        (MARGIN, "0.654", "It was 0.654%."),
        ("What was the inventory turnover?", "6.2", "It was 6.2%."),
        ("What was the inventory turnover?", "2.4x", "It was 2.4%."),
        ("What was the inventory turnover?", "2.4%", "It was 2.4x."),
        ("What was the inventory turnover?", "$2.40", "It was 2.4x."),
        (INCOME, "$5 million", "It was €5 million."),
        (INCOME, "$5 million", "It was ¥5 million."),
        (INCOME, "$5 million", "It was C$5 million."),
        (INCOME, "€5 million", "It was 5 million dollars."),
    ],
)
def test_another_unit_is_left_to_stage_two(question: str, gold: str, answer: str) -> None:
    assert find_match(question, gold, answer, 0.01) is None


@given(word=st.sampled_from(sorted(SCALES)), cents=st.integers(1, 10**6))
def test_an_unscaled_gold_takes_no_scale_that_the_question_does_not_name(word: str, cents: int) -> None:
    for amount in (f"${cents / 100:.2f}", f"{cents / 100:.2f}"):
        assert find_match(INCOME, amount, f"The net income was {amount} {word}.", 0.01) is None


@pytest.mark.parametrize(
    "answer",
    [
        "It was $8.70 (in thousands).",
        "It was $8.70 (USD millions).",
        "All figures are in millions. The net income was $8.70.",
        "Net income ($ in billions): $8.70",
    ],
)
def test_an_unscaled_gold_takes_no_scale_that_a_heading_of_the_answer_names(answer: str) -> None:
    assert find_match(INCOME, "$8.70", answer, 0.01) is None


@pytest.mark.parametrize(
    ("question", "gold", "answer"),
    [
        (INCOME, "-$12.5 million", "The net income was $12.5 million."),
        (INCOME, "-$12.5 million", "The profit or loss was $12.5 million."),
        (INCOME, "-$12.5 million", "Sales declined, while net income was $12.5 million."),
        (INCOME, "$12.5 million", "Net income was -$12.5 million."),
        (INCOME, "$12.5 million", "Net income was $(12.5) million."),
        (INCOME, "$12.5 million", "Acme made a net loss of $12.5 million."),
        (INCOME, "$12.5 million", "Net income was negative $12.5 million."),
        (CHANGE, "5%", "Sales decreased by 5%."),
        (CHANGE, "5%", "It was a 5% decline."),
        (CHANGE, "-5%", "The growth of sales decreased to 5%."),
    ],
)
def test_the_opposite_sign_is_left_to_stage_two(question: str, gold: str, answer: str) -> None:
    assert find_match(question, gold, answer, 0.01) is None


@pytest.mark.parametrize(
    ("text", "scale"),
    [
        ("in USD millions", 1e6),
        ("(in thousands)", 1e3),
        ("in US$ billions", 1e9),
        ("Answer in millions of dollars.", 1e6),
        ("($ in millions)", 1e6),
        ("in $mm", 1e6),
        ("USD (millions)", 1e6),
        ("how many million dollars", 1e6),
        ("in U.S. dollars", None),
        ("in 3 million homes", None),
        ("a million reasons", None),
    ],
)
def test_a_scale_is_read_where_a_text_names_it(text: str, scale: float | None) -> None:
    assert named_scale(text) == scale
