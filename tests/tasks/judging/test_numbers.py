"""Numbers as finance writes them."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.judging.numbers import SCALES, Number, read_numbers

WHOLE = st.integers(min_value=0, max_value=10**12)
MINUS = st.sampled_from(["-", "−", "–"])
FILLING = st.text(alphabet=st.characters(categories=["Ll", "Lu", "Po", "Zs"]), max_size=40)


def the_number(text: str) -> Number:
    (number,) = read_numbers(text)
    return number


@pytest.mark.parametrize(
    ("text", "value", "unit", "scale"),
    [
        ("$1577.00", 1577, "money", None),
        ("US$ 1,577.5 million", 1577.5, "money", 1e6),
        ("USD 12 bn", 12, "money", 1e9),
        ("€3.5m", 3.5, "money", 1e6),
        ("£250k", 250, "money", 1e3),
        ("1.8 billion dollars", 1.8, "money", 1e9),
        ("4 mm", 4, "plain", 1e6),
        ("2 tn", 2, "plain", 1e12),
        ("a 1.5-million loan", 1.5, "plain", 1e6),
        ("65.4%", 65.4, "percent", None),
        ("65.4 percent", 65.4, "percent", None),
        (r"63.86\%", 63.86, "percent", None),
        ("2 percentage points", 2, "percent", None),
        ("150 bps", 150, "basis_points", None),
        ("50 basis points", 50, "basis_points", None),
        ("2.4x", 2.4, "multiple", None),
        ("3.6 times", 3.6, "multiple", None),
        ("(1,234)", -1234, "plain", None),
        ("($1.5 billion)", -1.5, "money", 1e9),
        ("$(4.2)m", -4.2, "money", 1e6),
        ("(5.2)%", -5.2, "percent", None),
        ("-$473 million", -473, "money", 1e6),
        ("$-4.2bn", -4.2, "money", 1e9),
        ("−7.5 %", -7.5, "percent", None),
        ("– 12", -12, "plain", None),
        (".5%", 0.5, "percent", None),
        ("1{,}577", 1577, "plain", None),
        ("**$8.7 bn**", 8.7, "money", 1e9),
    ],
)
def test_a_number_is_read_with_its_sign_unit_and_scale(text: str, value: float, unit: str, scale: float | None) -> None:
    number = the_number(text)

    assert (number.value, number.unit, number.scale) == (value, unit, scale)


@pytest.mark.parametrize(
    "text", ["FY2018", "Q2", "a 10-K filing", "the 2nd", "H1", "3M's capital", "", "no digits", "v1.2b3"]
)
def test_digits_inside_a_word_are_no_number(text: str) -> None:
    assert read_numbers(text) == []


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("5%-7%", [5, 7]),
        ("2019-2020", [2019, 2020]),
        ("from $12 to $15 million.", [12, 15]),
        ("grew (3.4% a year)", [3.4]),
        ("1,234,567.89.", [1234567.89]),
    ],
)
def test_a_stroke_between_numbers_is_no_minus_and_a_longer_bracket_no_loss(text: str, values: list[float]) -> None:
    assert [number.value for number in read_numbers(text)] == values


@pytest.mark.parametrize(
    "text", ["1.2.3", "12/31/2019", "√2", r"2\sqrt{3}", "2^5", "3:45", "1,2,3", "5 hundred thousand"]
)
def test_what_cannot_be_read_for_certain_is_not_read_in_part(text: str) -> None:
    assert read_numbers(text) == []


@pytest.mark.parametrize(
    ("text", "currency"),
    [
        ("$5", "USD"),
        ("US$5", "USD"),
        ("USD 5", "USD"),
        ("5 million dollars", "USD"),
        ("5 U.S. dollars", "USD"),
        ("€5", "EUR"),
        ("5 million euros", "EUR"),
        ("£5", "GBP"),
        ("¥5 million", "JPY"),
        ("C$5", "CAD"),
        ("$5 CAD", "CAD"),
        ("RMB 5 million", "CNY"),
        ("5%", None),
        ("5 million", None),
    ],
)
def test_a_currency_is_read_from_sign_code_or_word(text: str, currency: str | None) -> None:
    assert the_number(text).currency == currency


def test_the_span_holds_the_number_with_sign_currency_and_unit() -> None:
    text = "It lost -$1,234.5 million (8.1%) in all."

    assert [text[slice(*number.span)] for number in read_numbers(text)] == ["-$1,234.5 million", "(8.1%)"]


@given(whole=WHOLE, cents=st.integers(0, 99), sign=st.one_of(st.just(""), MINUS), currency=st.sampled_from("$€£"))
def test_an_amount_with_thousands_commas_is_read_back(whole: int, cents: int, sign: str, currency: str) -> None:
    number = the_number(f"It was {sign}{currency}{whole:,}.{cents:02d}, they say.")

    wanted = whole + cents / 100
    assert math.isclose(number.value, -wanted if sign else wanted, rel_tol=1e-12)
    assert (number.unit, number.decimals, number.scale) == ("money", 2, None)


@given(whole=WHOLE, word=st.sampled_from(sorted(SCALES)), upper=st.booleans())
def test_a_scale_word_multiplies_the_amount(whole: int, word: str, upper: bool) -> None:
    number = the_number(f"{whole:,} {word.upper() if upper else word}")

    assert float(number.total) == pytest.approx(whole * SCALES[word])


@given(whole=WHOLE)
def test_brackets_and_minus_signs_say_the_same(whole: int) -> None:
    bracketed, signed = the_number(f"({whole:,})"), the_number(f"-{whole:,}")

    assert bracketed.value == signed.value
    assert bracketed.in_parentheses and not signed.in_parentheses


@given(before=FILLING, whole=WHOLE, after=FILLING)
def test_words_around_a_number_leave_it_as_it_is(before: str, whole: int, after: str) -> None:
    numbers = read_numbers(f"{before} ; {whole:,} ; {after}")

    assert [number.value for number in numbers] == [whole]


@given(st.text(max_size=200) | st.text(alphabet="0123456789.,()-−–$€%kmbnx \n", max_size=200))
def test_any_text_is_read_and_spans_neither_overlap_nor_leave_it(text: str) -> None:
    end = 0
    for number in read_numbers(text):
        assert end <= number.span[0] < number.span[1] <= len(text)
        assert any(letter.isnumeric() for letter in text[slice(*number.span)])
        end = number.span[1]
