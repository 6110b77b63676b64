"""Which number an answer settles on, of all that it mentions."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.judging.final_answer import final_numbers
from tasks.judging.numbers import read_numbers
from tasks.judging.rule import find_match

PLAIN = "What was the net income of Acme in 2023?"


def final(answer: str, question: str = PLAIN) -> list[str]:
    return [answer[slice(*number.span)] for number in final_numbers(question, answer)]


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("$2023", "The filing of 2023 gives the figure on its first page."),
        ("47", "See page 47 of the report: the income was $31 million."),
        ("3", "There are these points:\n1. Sales rose.\n2. Costs rose.\n3. Net income was $31 million."),
        ("31", "On December 31 the income for the year was $8 million."),
        ("12", "It is stated as of 2023-12-31."),
        ("$636.00", "Operating income was $1,196 plus $636, so that EBITDA = $1,196 + $636 = $1,832."),
        ("$1832.00", "Income = $1,196 + $636 = $1,832.\nTherefore, EBITDA = $1,832 + $636 = $2,468."),
        ("$388 million", "Net income was $412 million, compared with $388 million in the year before."),
        ("$7 million", "Net income was $5 million or $7 million."),
        ("$47 million", "Income was $156 million. Sales were $47 million. Cash was $31 million."),
        ("47%", "The gross margin of 47% reached 43.7% in 2023, against 43.7% the year before."),
        ("25%", "I cannot determine the margin. For example, if sales were $40 and income $10, it would be 25%."),
        ("0", "The filing does not provide the figure. If there is none, the answer would be 0."),
    ],
)
def test_a_number_is_not_accepted_because_it_appears(gold: str, answer: str) -> None:
    assert any(math.isclose(n.value, read_numbers(gold)[0].value) for n in read_numbers(answer))
    assert find_match(PLAIN, gold, answer, 0.01) is None


def test_the_numbers_of_the_question_are_not_the_answer() -> None:
    question = "Did capital spending stay above the limit of $500 million? How much was it?"

    exceeded = "The limit is $500 million, and spending was $620 million."
    assert find_match(question, "$500 million", exceeded, 0.01) is None
    assert find_match(question, "$500 million", "Spending was exactly $500 million.", 0.01) is not None


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
        ("A coverage of 1.5:1, as agreed.", ["1.5"]),
        ("It came to 42.57 or about 43 days.", ["42.57", "43"]),
        ("It came to $1.6 billion or $1,577 million.", ["$1.6 billion", "$1,577 million"]),
        ("It came to 5 or 5.04.", []),
        ("Filed in 2023.", []),
        ("", []),
    ],
)
def test_an_answer_settles_on_its_conclusion_its_result_or_its_first_figure(answer: str, wanted: list[str]) -> None:
    assert final(answer) == wanted


@given(
    gold=st.integers(1, 999),
    others=st.lists(st.integers(2000, 9999), min_size=1, max_size=30),
    place=st.integers(0, 30),
)
def test_a_list_of_figures_wins_nothing_by_its_length(gold: int, others: list[int], place: int) -> None:
    """Given the right number among wrong ones, where the answer begins with a wrong one, nothing is decided."""
    figures = [f"${number:,} million" for number in others]
    figures.insert(1 + place % len(others), f"${gold} million")

    assert find_match(PLAIN, f"${gold} million", "The figures are: " + ", ".join(figures) + ".", 0.01) is None
