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


@example(["\n", "\r", "\t", " ", "\ufffd"])
@settings(max_examples=8, deadline=None)
@given(st.lists(st.text(max_size=6), min_size=1, max_size=4))
def test_any_token_can_be_drawn_without_a_complaint(tokens: list[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        size(wasted_png(entries(*tokens, "$\\alpha$", "$", "_{x")))
