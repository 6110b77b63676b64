"""The pictures of a run: real PNGs, whatever names and tokens are in it."""

from __future__ import annotations

import io
import warnings

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image

from tasks.cpu.plots import draw


def assert_drawn(png: bytes) -> None:
    """It is a PNG of a sensible size with something on it."""
    image = Image.open(io.BytesIO(png))
    image.load()
    assert image.format == "PNG" and image.width * image.height < 6_000_000
    assert len(image.convert("RGB").reduce(4).getcolors(maxcolors=1 << 24) or ()) > 20


@pytest.mark.filterwarnings("ignore:Glyph")
def test_names_of_others_cannot_spoil_the_plot() -> None:
    point = {"kind": "prompt", "set": "ordering", "whole": 0.9, "is_on_front": False, "is_winner": False}
    point |= {"correct": 0.5, "correct_interval": [0.4, 0.6], "mean_tokens": 10.0, "mean_tokens_interval": [9.0, 11.0]}
    names = ["$x", "\\frac{", "a" * 300, "資本的支出", "", "_hidden"]
    assert_drawn(draw("pareto.png", {"points": [point | {"name": name} for name in names]}))


@example(["\n", "\r", "\t", " ", "\ufffd", "$\\alpha$", "$", "_{x"])
@settings(max_examples=4, deadline=None)
@given(st.lists(st.text(max_size=6), min_size=8, max_size=12))
def test_any_token_can_be_drawn_without_a_complaint(tokens: list[str]) -> None:
    entries = [{"token_id": n, "token_str": text, "delta": 0.05 / (n + 1)} for n, text in enumerate(tokens)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_drawn(draw("wasted_tokens.png", {"v_steer": entries}))
