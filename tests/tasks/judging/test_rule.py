"""Stage 1 on any texts; `cases.jsonl` has its verdicts."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tasks.judging.final_answer import final_numbers
from tasks.judging.numbers import SCALES
from tasks.judging.rule import find_match, is_close, pure_number

PLAIN = "What was the net income of Acme in 2023?"


@pytest.mark.parametrize("gold", ["$1577.00", "65.4%", "-0.02", "0", "$1.9 billion", " 24.26. ", "(12)"])
def test_a_gold_that_is_one_number_is_pure(gold: str) -> None:
    assert pure_number(gold) is not None


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        ("Net income was $412 million, compared with $388 million in 2022.", ["$412 million"]),
        ("In 2022 it was low. Net income for 2023 was $412 million.", ["$412 million"]),
        ("ROA = 1,248 / 87,583\nROA = 0.01424 or 1.42%", ["0.01424", "1.42%"]),
        ("A = 5 + 6 = 11.\nTherefore, the ratio is 5.5 (or 550%).", ["5.5", "550%"]),
        ("Profits of $5 million and $7 million add up: $12 million. So, the answer is $12 million.", ["$12 million"]),
        ("It has grown by 46%, which is 4.6% of the total.", ["46%"]),
        ("It came to 42.57 or about 43 days.", ["42.57", "43"]),
        ("It came to $1.6 billion or $1,577 million.", ["$1.6 billion", "$1,577 million"]),
        ("It came to 5 or 5.04.", []),
        ("Filed in 2023.", []),
    ],
)
def test_an_answer_settles_on_its_conclusion_its_result_or_its_first_figure(answer: str, wanted: list[str]) -> None:
    assert [answer[slice(*number.span)] for number in final_numbers(PLAIN, answer)] == wanted


@given(
    gold=st.integers(1, 999),
    others=st.lists(st.integers(2000, 9999), min_size=1, max_size=30),
    place=st.integers(0, 30),
)
def test_a_list_of_figures_wins_nothing_by_its_length(gold: int, others: list[int], place: int) -> None:
    figures = [f"${number:,} million" for number in others]
    figures.insert(1 + place % len(others), f"${gold} million")
    assert find_match(PLAIN, f"${gold} million", "The figures are: " + ", ".join(figures) + ".", 0.01) is None


@given(low=st.integers(1, 500), width=st.integers(1, 500), link=st.sampled_from([" to ", "-", " - ", "–", " and "]))
def test_a_range_matches_neither_its_ends_nor_what_it_contains(low: int, width: int, link: str) -> None:
    answer = f"The net income was ${low} million{link}${low + width} million."
    for gold in (low, low + width / 2, low + width):
        assert find_match(PLAIN, f"${gold} million", answer, 0.15) is None


@given(word=st.sampled_from(sorted(SCALES)), cents=st.integers(1, 10**6))
def test_an_unscaled_gold_takes_no_scale_that_the_question_does_not_name(word: str, cents: int) -> None:
    for amount in (f"${cents / 100:.2f}", f"{cents / 100:.2f}"):
        assert find_match(PLAIN, amount, f"The net income was {amount} {word}.", 0.01) is None


@given(amount=st.integers(1, 10**6), scale=st.sampled_from(["million", "billion", "bn", "k"]))
def test_what_is_written_as_the_gold_is_always_correct(amount: int, scale: str) -> None:
    gold = f"${amount:,} {scale}"
    match = find_match(PLAIN, gold, f"The net income was {gold} in 2023.", 0.0)
    assert match is not None and gold in match[1]


@example(gold=100.0, tolerance=0.1, error=0.105)  # within a tenth of itself
@given(gold=st.floats(0.1, 1e6), tolerance=st.floats(0, 0.5), error=st.floats(-1, 1))
def test_is_close_is_the_relative_error(gold: float, tolerance: float, error: float) -> None:
    if math.isclose(abs(error), tolerance, rel_tol=1e-6, abs_tol=1e-9):
        return  # on the very edge the last bit decides
    assert is_close(gold * (1 + error), gold, tolerance) == (abs(error) < tolerance)


@pytest.mark.parametrize("odd", [math.inf, -math.inf, math.nan])
def test_nothing_is_close_to_what_is_not_finite(odd: float) -> None:
    assert not is_close(odd, 1.0, 0.15) and not is_close(1.0, odd, 0.15) and not is_close(odd, odd, 0.15)
    assert find_match(PLAIN, "$100", "It was $" + "9" * 400, 0.01) is None


@given(question=st.text(max_size=80), gold=st.text(max_size=30), answer=st.text(max_size=200))
def test_any_three_texts_are_decided_or_left(question: str, gold: str, answer: str) -> None:
    find_match(question, gold, answer, 0.15)


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    "piece", ["1,", "0", "(", "= ", "1 or ", "-", "1.", "$1 million, ", "$1.\n", "a\n", "\n* ", "or "]
)
def test_a_long_run_of_one_thing_is_read_in_time_that_grows_with_it(piece: str) -> None:
    assert find_match(PLAIN, "7", piece * 10_000, 0.01) is None
