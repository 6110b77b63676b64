"""The picture of the most wasted tokens: every token can be read, whatever it is made of."""

from __future__ import annotations

import io
import warnings

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image

from tasks.cpu.plots.wasted import LONGEST, readable, wasted_png


def entries(*tokens: str) -> list[dict[str, object]]:
    return [{"token_id": n, "token_str": text, "delta": 0.05 / (n + 1)} for n, text in enumerate(tokens)]


def size(png: bytes) -> tuple[int, int]:
    image = Image.open(io.BytesIO(png))
    image.load()
    assert image.format == "PNG"
    return image.size


@pytest.mark.parametrize(
    ("token", "shown"),
    [
        (" the", "␣the"),
        ("\n\n", "⏎⏎"),
        ("\t", "⇥"),
        ("\r\n", "\\r⏎"),
        ("a\x07b", "a\\x07b"),
        ("\u200b", "\\u200b"),
        ("\u00a0", "\\xa0"),
        ("\ufffd", "�"),
        ("日本", "\\u65e5\\u672c"),
        ("\ud800", "\\ud800"),
        ("\U0001f600", "\\U0001f600"),
        ("é€", "é€"),
        ("", ""),
        ("x" * 40, "x" * (LONGEST - 1) + "…"),
    ],
)
def test_a_token_is_shown_so_that_all_of_it_can_be_seen(token: str, shown: str) -> None:
    if token == "\U0001f600":  # the font may have faces or not; a number or the face, both can be read
        assert readable(token) in (shown, token)
        return
    assert readable(token) == shown


@given(st.text(max_size=30))
def test_a_label_is_one_short_line(token: str) -> None:
    shown = readable(token)
    assert len(shown) <= LONGEST
    assert not any(c.isspace() for c in shown)


@example(["\n", "\r", "\t", " ", "\ufffd"])
@settings(max_examples=8, deadline=None)
@given(st.lists(st.text(max_size=6), min_size=1, max_size=4))
def test_any_token_can_be_drawn_without_a_complaint(tokens: list[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        size(wasted_png(entries(*tokens, "$\\alpha$", "$", "_{x")))


def test_the_picture_shows_the_first_ones_and_no_more() -> None:
    many = entries(*(f"token{n}" for n in range(40)))
    drawn = wasted_png(many)
    assert drawn == wasted_png(many[:30]) == wasted_png(many, top=30)
    assert wasted_png(many, top=5) != wasted_png(many, top=6)
    # a label or a value that is another shows
    for change in ({"token_str": " other"}, {"delta": 0.9}):
        assert wasted_png([many[0] | change, *many[1:]]) != drawn
    width, height = size(drawn)
    assert width * height < 2_000_000


def test_no_token_and_negative_differences_are_drawn_too() -> None:
    empty = wasted_png([])
    assert size(empty)[0] > 500
    below = [{"token_id": 1, "token_str": "a", "delta": -0.01}]
    assert wasted_png(below) not in (empty, wasted_png([below[0] | {"delta": 0.01}]))
