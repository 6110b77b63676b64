"""The picture of the most wasted tokens can be drawn, whatever they are made of."""

from __future__ import annotations

import io
import warnings

from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image

from tasks.cpu.plots.found import wasted_png


def entries(*tokens: str) -> list[dict[str, object]]:
    return [{"token_id": n, "token_str": text, "delta": 0.05 / (n + 1)} for n, text in enumerate(tokens)]


def size(png: bytes) -> tuple[int, int]:
    image = Image.open(io.BytesIO(png))
    image.load()
    assert image.format == "PNG"
    return image.size


@example(["\n", "\r", "\t", " ", "\ufffd"])
@settings(max_examples=8, deadline=None)
@given(st.lists(st.text(max_size=6), min_size=1, max_size=4))
def test_any_token_can_be_drawn_without_a_complaint(tokens: list[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        size(wasted_png(entries(*tokens, "$\\alpha$", "$", "_{x")))
