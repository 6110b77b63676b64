"""Numbers as finance writes them, and stage 1 on any texts; `cases.jsonl` has its verdicts."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tasks.judging.numbers import SCALES, read_numbers
from tasks.judging.rule import find_match, is_close

PLAIN = "What was the net income of Acme in 2023?"
WHOLE = st.integers(min_value=0, max_value=10**12)
FILLING = st.text(alphabet=st.characters(categories=["Ll", "Lu", "Po", "Zs"]), max_size=40)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("5%-7%", [5, 7]),
        ("2019-2020", [2019, 2020]),
        ("from $12 to $15 million.", [12, 15]),
        ("grew (3.4% a year)", [3.4]),
        ("1,234,567.89.", [1234567.89]),
        # longer than Python reads
        *((f"{'1' * 5000}{fraction}", []) for fraction in ("", "½", r" \frac{1}{2}")),
        # Digits in a word are no number, and what cannot be read for certain is not read in part.
        *((word, []) for word in ("FY2018", "Q2", "a 10-K filing", "the 2nd", "3M's capital", "v1.2b3", "")),
        *(
            (odd, [])
            for odd in ("1.2.3", "12/31/2019", "√2", r"2\sqrt{3}", "2^5", "3:45", "1,2,3", "5 hundred thousand")
        ),
    ],
)
def test_which_numbers_a_text_has(text: str, values: list[float]) -> None:
    assert [number.value for number in read_numbers(text)] == values


@given(
    FILLING, WHOLE, st.integers(0, 99), st.sampled_from(["", "-", "−", "–"]), st.sampled_from("$€£"), FILLING
)  # fmt: skip
def test_an_amount_is_read_back_whatever_words_are_around_it(
    before: str, whole: int, cents: int, sign: str, currency: str, after: str
) -> None:
    [number] = read_numbers(f"{before} ; {sign}{currency}{whole:,}.{cents:02d} ; {after}")
    wanted = whole + cents / 100
    assert math.isclose(number.value, -wanted if sign else wanted, rel_tol=1e-12)
    assert (number.unit, number.decimals, number.scale) == ("money", 2, None)


@given(whole=WHOLE, word=st.sampled_from(sorted(SCALES)), upper=st.booleans())
def test_a_scale_word_multiplies_and_brackets_are_a_minus(whole: int, word: str, upper: bool) -> None:
    written = f"{whole:,} {word.upper() if upper else word}"
    [number], [bracketed] = read_numbers(written), read_numbers(f"({whole:,})")
    assert float(number.total) == pytest.approx(whole * SCALES[word])
    assert bracketed.value == -whole and bracketed.in_parentheses and not number.in_parentheses


@given(st.text(max_size=200) | st.text(alphabet="0123456789.,()-−–$€%kmbnx \n", max_size=200))
def test_any_text_is_read_and_spans_neither_overlap_nor_leave_it(text: str) -> None:
    end = 0
    for number in read_numbers(text):
        assert end <= number.span[0] < number.span[1] <= len(text)
        assert any(letter.isnumeric() for letter in text[slice(*number.span)])
        end = number.span[1]


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


@given(
    amount=st.integers(1, 10**6), word=st.sampled_from(sorted(SCALES)), scale=st.sampled_from(["million", "bn", "k"])
)
def test_what_is_written_as_the_gold_is_correct_and_an_unscaled_gold_takes_no_scale(
    amount: int, word: str, scale: str
) -> None:
    gold = f"${amount:,} {scale}"
    match = find_match(PLAIN, gold, f"The net income was {gold} in 2023.", 0.0)
    assert match is not None and gold in match[1]
    for unscaled in (f"${amount / 100:.2f}", f"{amount / 100:.2f}"):
        assert find_match(PLAIN, unscaled, f"The net income was {unscaled} {word}.", 0.01) is None


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
