"""Whether a number is the one value of an answer: a range, a choice, a limit or another year's figure is not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.judging.final_answer import final_numbers
from tasks.judging.rule import find_match

INCOME = "What was the net income of Acme in 2023?"
GOLD = "$5 million"


@pytest.mark.parametrize(
    "answer",
    [
        "It was $5 million to $7 million.",
        "It was $3 million to $5 million.",
        "It was between $5 million and $7 million.",
        "It was $5 million - $7 million.",
        "It was $5 million–$7 million.",
        "It was $5-7 million.",
        "It was $5 million through about $7 million.",
        "It was somewhere from $5 million in the first to $7 million in the last version.",
        "Therefore, net income was $5 million to $7 million.",
        "Sales - costs = $5 million to $7 million",
    ],
)
def test_a_range_is_no_value(answer: str) -> None:
    assert final_numbers(INCOME, answer) == []
    assert find_match(INCOME, GOLD, answer, 0.5) is None


@given(low=st.integers(1, 500), width=st.integers(1, 500), link=st.sampled_from([" to ", "-", " - ", "–", " and "]))
def test_a_range_matches_neither_its_ends_nor_what_it_contains(low: int, width: int, link: str) -> None:
    answer = f"The net income was ${low} million{link}${low + width} million."

    for gold in (low, low + width / 2, low + width):
        assert find_match(INCOME, f"${gold} million", answer, 0.15) is None


@pytest.mark.parametrize(
    "answer",
    [
        "It was $5 million or $7 million.",
        "It was $5 million, or perhaps $7 million.",
        "It was $5 million and $7 million, respectively.",
        "They were $5 million, $6 million and $7 million.",
        "It was $5 million/$7 million.",
    ],
)
def test_a_choice_and_a_list_are_no_value(answer: str) -> None:
    assert find_match(INCOME, GOLD, answer, 0.01) is None


@pytest.mark.parametrize(
    "answer",
    [
        "It was up to $5 million.",
        "It was at least $5 million.",
        "It was more than $5 million.",
        "It was less than about $5 million.",
        "It was over $5 million.",
        "It was as much as $5 million.",
        "It was <$5 million.",
        "It was $5 million or more.",
        "It was $5 million at most.",
    ],
)
def test_a_limit_is_no_value_unless_the_question_asks_for_one(answer: str) -> None:
    assert find_match(INCOME, GOLD, answer, 0.01) is None
    assert find_match("What is the maximum that Acme may borrow?", GOLD, answer, 0.01) is not None


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("1248", "The ratio is 1,248 / 87,583."),
        ("5", "The ratio is (5 + 6) / 2."),
        ("5", "Ratio = 5 * 6"),
        ("5", "The ratio is 5 ± 1."),
        ("5", "The ratio is 5:2."),
        ("5", "The ratio is 5 divided by 2."),
    ],
)
def test_a_calculation_without_its_result_is_no_value(gold: str, answer: str) -> None:
    assert find_match("What was the ratio?", gold, answer, 0.01) is None


@pytest.mark.parametrize(
    ("question", "answer", "is_right"),
    [
        (INCOME, "Net income was $5 million in 2022.", None),
        (INCOME, "Net income was $5 million in fiscal year 2022 and $7 million in 2023.", None),
        (INCOME, "Net income was $5 million in 2023 and $7 million in 2022.", True),
        ("What was the net income of Acme in FY23?", "It was $5 million in 2023.", True),
        ("What was the income from FY2020 to FY2023?", "It was $5 million in 2022.", True),
        ("What was the net income of Acme?", "It was $5 million in 2022.", True),
    ],
)
def test_a_figure_of_a_year_that_was_not_asked_for_is_no_value(
    question: str, answer: str, is_right: bool | None
) -> None:
    assert bool(find_match(question, GOLD, answer, 0.01)) == bool(is_right)


@pytest.mark.parametrize(
    "answer",
    [
        "It was approximately $5 million.",
        "It was nearly $5,000,000.",
        "It was $5 million, or $0.07 per share.",
        "It was $5 million, or 3% of sales.",
        "It was $5 million, $2 million more than before.",
        "It was $5 million (up from $3 million).",
        "It was $5 million, an increase of 7% to a new record.",
        "**$5 million** (**3%** of sales)",
        "A growth of 7% to $9 million led to this. Therefore, net income was $5 million.",
    ],
)
def test_a_number_that_is_only_explained_is_a_value(answer: str) -> None:
    assert find_match(INCOME, GOLD, answer, 0.01) is not None


@pytest.mark.parametrize("answer", ["The ratio is 1.5 to 1.", "The ratio is 1.5:1.", "It is 1.5 to 1.0."])
def test_a_ratio_to_one_is_a_value(answer: str) -> None:
    assert find_match("What was the current ratio?", "1.5", answer, 0.01) is not None
