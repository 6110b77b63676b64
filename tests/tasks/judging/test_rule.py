"""Stage 1: the number that an answer settles on is the gold's, or nothing is decided."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.judging.final_answer import final_numbers
from tasks.judging.numbers import read_numbers
from tasks.judging.rule import decide, find_match, is_close, pure_number

MILLIONS = "What was the capital expenditure of Acme in FY2018 (in USD millions)?"
PLAIN = "What was the net income of Acme in 2023?"
RATIO = "What was the current ratio of Acme in 2023? Round your answer to two decimal places."
PERCENT = "What was the operating margin of Acme in 2023?"


def settled(answer: str, question: str = PLAIN) -> list[str]:
    return [answer[slice(*number.span)] for number in final_numbers(question, answer)]


@pytest.mark.parametrize("gold", ["$1577.00", "65.4%", "-0.02", "0", "$1.9 billion", " 24.26. ", "(12)"])
def test_a_gold_that_is_one_number_is_pure(gold: str) -> None:
    assert pure_number(gold) is not None


@pytest.mark.parametrize("gold", ["", "Yes", "It fell by 0.9%.", "$5 million and $6 million", "2.7 times in FY2022"])
def test_a_gold_that_says_more_is_left_to_stage_two(gold: str) -> None:
    assert pure_number(gold) is None
    assert decide(PLAIN, gold, gold, 0.01) is None


@pytest.mark.parametrize(
    ("question", "gold", "answer"),
    [
        # scales: of the question, written out, or full dollars
        (MILLIONS, "$1577.00", "Acme spent $1,577 million."),
        (MILLIONS, "$1577.00", "Capital expenditure was $1,577."),
        (MILLIONS, "$1577.00", "It was $1,577,000,000."),
        (MILLIONS, "$1577.00", "It was $1.577 billion."),
        (MILLIONS, "$1577.00", "It was $1,577,000 (in thousands)."),
        (PLAIN, "$1.9 billion", "The net income was $1,900 million."),
        (PLAIN, "$1577.00", "The net income was $1,577 million."),  # nobody says in what this gold counts
        # percent, fraction, basis points
        (PERCENT, "65.4%", "The margin is 0.654."),
        (PERCENT, "65.4%", "The margin is 65.4."),
        (PERCENT, "0.5%", "It changed by 50 basis points."),
        ("What was the return on assets?", "0.01", "It is 1.42%."),
        ("What was the retention ratio?", "0.54", "It is 54%."),
        # rounding as the gold was rounded
        (RATIO, "-0.02", "The ratio is -0.0153."),
        (RATIO, "0.83", "The ratio is 0.8263."),
        # zero
        (PLAIN, "0", "The net income was $0."),
        (PLAIN, "$0", "The net income was 0.00 dollars."),
        # signs in words and brackets
        (PLAIN, "-$12.5 million", "Acme made a net loss of $12.5 million."),
        (PLAIN, "-$12.5 million", "Net income was $(12.5) million."),
        (PLAIN, "-$12.5 million", "Net income was −$12.5 million."),
        (MILLIONS, "$1577.00", "Purchases of property (1,577)."),
    ],
)
def test_the_same_amount_in_another_unit_is_correct(question: str, gold: str, answer: str) -> None:
    assert decide(question, gold, answer, 0.01) is True


@pytest.mark.parametrize(
    ("question", "gold", "answer"),
    [
        (MILLIONS, "$1577.00", "It was $1,577 billion."),
        (MILLIONS, "$1577.00", "It was $1,577 thousand."),
        (PERCENT, "65.4%", "It was $65.4 million."),
        ("What was the inventory turnover?", "6.2", "It was 6.2%."),
        (PLAIN, "24.26", "It was 24.26 million."),
        (PLAIN, "-$12.5 million", "The net income was $12.5 million."),
        (PLAIN, "-$12.5 million", "The profit or loss was $12.5 million."),
        (PLAIN, "$12.5 million", "Net income was -$12.5 million."),
        (PLAIN, "0", "The net income was $0.25."),
        (PLAIN, "0", "Net income was $5 million in 2023."),
        (RATIO, "2", "The ratio is 2.4."),  # a whole gold is no licence to round
        (PLAIN, "$100", "It was $" + "9" * 400),
    ],
)
def test_another_amount_is_left_to_stage_two(question: str, gold: str, answer: str) -> None:
    assert decide(question, gold, answer, 0.01) is None


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("$2023", "The filing of 2023 gives the figure on its first page."),
        ("47", "See page 47 of the report: the income was $31 million."),
        ("3", "There are these points:\n1. Sales rose.\n2. Costs rose.\n3. Net income was $31 million."),
        ("31", "On December 31 the income for the year was $8 million."),
        ("$636.00", "Operating income was $1,196 plus $636, so that EBITDA = $1,196 + $636 = $1,832."),
        ("$1832.00", "Income = $1,196 + $636 = $1,832.\nTherefore, EBITDA = $1,832 + $636 = $2,468."),
        ("$388 million", "Net income was $412 million, compared with $388 million in the year before."),
        ("$7 million", "Net income was $5 million or $7 million."),
        ("$47 million", "Income was $156 million. Sales were $47 million. Cash was $31 million."),
        ("25%", "I cannot determine the margin. For example, if sales were $40 and income $10, it would be 25%."),
        ("0", "The filing does not provide the figure. If there is none, the answer would be 0."),
    ],
)
def test_a_number_is_not_accepted_because_it_appears(gold: str, answer: str) -> None:
    assert any(math.isclose(n.value, read_numbers(gold)[0].value) for n in read_numbers(answer))
    assert decide(PLAIN, gold, answer, 0.01) is None


def test_the_numbers_of_the_question_are_not_the_answer() -> None:
    question = "Did capital spending stay above the limit of $500 million? How much was it?"

    assert decide(question, "$500 million", "The limit is $500 million, and spending was $620 million.", 0.01) is None
    assert decide(question, "$500 million", "Spending was exactly $500 million.", 0.01) is True


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        ("Net income was $412 million, compared with $388 million in 2022.", ["$412 million"]),
        ("In 2022 it was low. Net income for 2023 was $412 million.", ["$412 million"]),
        ("ROA = 1,248 / 87,583\nROA = 0.01424 or 1.42%", ["0.01424", "1.42%"]),
        ("A = 5 + 6 = 11.\nTherefore, the ratio is 5.5 (or 550%).", ["5.5", "550%"]),
        ("Profits of $5 million and $7 million add up: $12 million. So, the answer is $12 million.", ["$12 million"]),
        ("It has grown by 46%, which is 4.6% of the total.", ["46%"]),
        ("Backlog was $2.6 billion, which is 1.6% of sales.", ["$2.6 billion"]),
        ("Filed in 2023.", []),
        ("", []),
    ],
)
def test_an_answer_settles_on_its_conclusion_its_result_or_its_first_figure(answer: str, wanted: list[str]) -> None:
    assert settled(answer) == wanted


@given(
    gold=st.integers(1, 999),
    others=st.lists(st.integers(2000, 9999), min_size=1, max_size=30),
    place=st.integers(0, 30),
)
def test_a_list_of_figures_wins_nothing_by_its_length(gold: int, others: list[int], place: int) -> None:
    """Given the right number among wrong ones, where the answer begins with a wrong one, nothing is decided."""
    figures = [f"${number:,} million" for number in others]
    figures.insert(1 + place % len(others), f"${gold} million")

    assert decide(PLAIN, f"${gold} million", "The figures are: " + ", ".join(figures) + ".", 0.01) is None


@given(amount=st.integers(1, 10**6), scale=st.sampled_from(["million", "billion", "bn", "k"]))
def test_what_is_written_as_the_gold_is_always_correct(amount: int, scale: str) -> None:
    gold = f"${amount:,} {scale}"

    match = find_match(PLAIN, gold, f"The net income was {gold} in 2023.", 0.0)

    assert match is not None
    assert gold in match.reasoning


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
    assert decide(question, gold, answer, 0.15) in (True, None)


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    "piece", ["1,", "0", "(", "= ", "1 or ", "-", "1.", "$1 million, ", "$1.\n", "a\n", "\n* ", "or "]
)
def test_a_long_run_of_one_thing_is_read_in_time_that_grows_with_it(piece: str) -> None:
    answer = piece * 10_000

    assert decide(PLAIN, "7", answer, 0.01) is None
