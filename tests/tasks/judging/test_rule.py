"""Stage 1: the number that an answer settles on is the gold's, or nothing is decided."""

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tasks.judging.rule import declines, find_match, is_close, pure_number

PLAIN = "What was the net income of Acme in 2023?"
RATIO = "What was the current ratio of Acme in 2023? Round your answer to two decimal places."


@pytest.mark.parametrize("gold", ["$1577.00", "65.4%", "-0.02", "0", "$1.9 billion", " 24.26. ", "(12)"])
def test_a_gold_that_is_one_number_is_pure(gold: str) -> None:
    assert pure_number(gold) is not None


@pytest.mark.parametrize("gold", ["", "Yes", "It fell by 0.9%.", "$5 million and $6 million", "2.7 times in FY2022"])
def test_a_gold_that_says_more_is_left_to_stage_two(gold: str) -> None:
    assert pure_number(gold) is None
    assert find_match(PLAIN, gold, gold, 0.01) is None


@pytest.mark.parametrize(
    ("gold", "answer", "tolerance"),
    [
        ("0.1", "It was 0.14.", 0.01),
        ("0.1", "It was 0.12.", 0.15),
        ("$1.5 billion", "It was $1.45 billion.", 0.01),
        ("0.01", "It is 1.42%.", 0.15),
        ("12.3%", "It was 12.34%.", 0.003),
        ("2", "It was 2.4.", 0.15),
    ],
)
def test_the_digits_of_the_gold_widen_no_tolerance(gold: str, answer: str, tolerance: float) -> None:
    assert find_match(PLAIN, gold, answer, tolerance) is None


@pytest.mark.parametrize(
    ("request_", "gold", "answer"),
    [
        ("Round your answer to two decimal places.", "-0.02", "The ratio is -0.0153."),
        ("Round your answer to two decimal places.", "0.01", "It is 0.01424 or 1.424%."),
        ("Answer in units of percents and round to one decimal place.", "0.2%", "It is 0.182%."),
        ("Round to 1 decimal.", "0.1", "It was 0.14."),
        ("Give it to the nearest tenth.", "0.1", "It was 0.14."),
        ("Round to the nearest whole number.", "2", "It was 2.4."),
        ("In USD millions, rounded to the nearest million.", "$2", "It was $1.6 million."),
    ],
)
def test_a_question_that_asks_for_rounding_is_met_by_what_rounds_to_the_gold(
    request_: str, gold: str, answer: str
) -> None:
    match = find_match(f"What was it? {request_}", gold, answer, 0.01)

    assert match is not None
    assert "rounds to" in match.reasoning


@pytest.mark.parametrize(
    ("question", "gold", "answer"),
    [
        (RATIO, "0.1", "The ratio is 0.14."),  # 0.14 to two decimals is 0.14
        (RATIO, "2", "The ratio is 2.4."),
        (RATIO, "0.015", "The ratio is 0.0185."),  # the gold has more decimals than were asked for
        ("What was it, to the nearest million?", "$2", "It was $1.6."),  # of a gold in millions only
        ("What was the loss? Round to one decimal.", "0", "It was 0.04."),
    ],
)
def test_rounding_goes_no_further_than_the_question_asks(question: str, gold: str, answer: str) -> None:
    assert find_match(question, gold, answer, 0.01) is None


@pytest.mark.parametrize(
    "answer",
    [
        "I cannot determine the margin. For example, if sales were $40 and income $10, it would be $10 / $40 = 25%.",
        "The filing does not provide the margin. Assuming sales of $40, it is $10 / $40 = 25%.",
        "The margin is $10 / $40 = 25%. Please provide the actual figures, and I can check it.",
        "Once you have the figures, divide them: $10 / $40 = 25%.",
        "The margin is not available. Others have 25%.",
    ],
)
def test_an_answer_that_lacks_the_figures_claims_nothing(answer: str) -> None:
    assert declines(answer)
    assert find_match(PLAIN, "25%", answer, 0.01) is None


def test_an_answer_that_lacks_one_figure_and_calculates_from_others_claims_its_result() -> None:
    answer = "The filing does not provide the cost. It gives a gross margin of 75%.\nCost share = 100% - 75% = 25%"

    assert not declines(answer)
    assert find_match(PLAIN, "25%", answer, 0.01) is not None


@pytest.mark.parametrize(
    ("gold", "answer", "is_right"),
    [("0", "The net income was $0.", True), ("$0", "It was 0.00 dollars.", True), ("0", "It was $0.25.", None)],
)
def test_zero_is_met_by_zero_alone(gold: str, answer: str, is_right: bool | None) -> None:
    assert bool(find_match(PLAIN, gold, answer, 0.15)) == bool(is_right)


def test_an_amount_too_large_for_a_float_is_left_to_stage_two() -> None:
    assert find_match(PLAIN, "$100", "It was $" + "9" * 400, 0.01) is None


@given(amount=st.integers(1, 10**6), scale=st.sampled_from(["million", "billion", "bn", "k"]))
def test_what_is_written_as_the_gold_is_always_correct(amount: int, scale: str) -> None:
    gold = f"${amount:,} {scale}"

    match = find_match(PLAIN, gold, f"The net income was {gold} in 2023.", 0.0)

    assert match is not None
    assert gold in match.reasoning


@example(gold=100.0, tolerance=0.1, error=0.105)  # within a tenth of itself
@given(gold=st.floats(0.1, 1e6), tolerance=st.floats(0, 0.5), error=st.floats(-1, 1))
def test_is_close_is_the_relative_error(gold: float, tolerance: float, error: float) -> None:
    if math.isclose(abs(error), tolerance, rel_tol=1e-6, abs_tol=1e-9):
        return  # on the very edge the last bit decides
    assert is_close(gold * (1 + error), gold, tolerance) == (abs(error) < tolerance)


@pytest.mark.parametrize("odd", [math.inf, -math.inf, math.nan])
def test_nothing_is_close_to_what_is_not_finite(odd: float) -> None:
    assert not is_close(odd, 1.0, 0.15)
    assert not is_close(1.0, odd, 0.15)
    assert not is_close(odd, odd, 0.15)


@given(question=st.text(max_size=80), gold=st.text(max_size=30), answer=st.text(max_size=200))
def test_any_three_texts_are_decided_or_left(question: str, gold: str, answer: str) -> None:
    find_match(question, gold, answer, 0.15)


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    "piece", ["1,", "0", "(", "= ", "1 or ", "-", "1.", "$1 million, ", "$1.\n", "a\n", "\n* ", "or "]
)
def test_a_long_run_of_one_thing_is_read_in_time_that_grows_with_it(piece: str) -> None:
    answer = piece * 10_000

    assert find_match(PLAIN, "7", answer, 0.01) is None
