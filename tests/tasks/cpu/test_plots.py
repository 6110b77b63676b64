"""The pictures of a run: real PNGs, the same bytes for the same data, whatever names and tokens are in it."""

from __future__ import annotations

import io
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image

from tasks.cpu.plots import draw


def point(name: str, tokens: float = 30.0, **changes: Any) -> dict[str, Any]:
    figures = {"mean_tokens": tokens, "mean_tokens_interval": [0.9 * tokens, 1.1 * tokens], "whole": 0.9}
    figures |= {"correct": 0.5, "correct_interval": [0.42, 0.58]}
    return (
        {"name": name, "kind": "prompt", "set": "ordering", "is_on_front": False, "is_winner": False}
        | figures
        | changes
    )


def assert_drawn(png: bytes) -> None:
    """It is a PNG of a sensible size with something on it."""
    image = Image.open(io.BytesIO(png))
    image.load()
    assert image.format == "PNG" and image.width * image.height < 6_000_000
    assert len(image.convert("RGB").reduce(4).getcolors(maxcolors=1 << 24) or ()) > 20


def test_the_same_data_gives_the_same_bytes_in_any_thread() -> None:
    winner = point("evolved", 20.0, kind="evolved", is_on_front=True, is_winner=True)
    data = {"points": [point("plain", 60.0, kind="plain"), point("cut", 10.0, kind="cut", whole=0.2), winner]}
    alone = draw("pareto.png", data)
    with ThreadPoolExecutor(4) as pool:
        assert [*pool.map(lambda _: draw("pareto.png", data), range(4))] == [alone] * 4
    # they hold no time and no version
    assert not any(mark in alone for mark in (b"tEXt", b"iTXt", b"tIME"))
    assert draw("pareto.png", {"points": [winner]}) != alone


@pytest.mark.filterwarnings("ignore:Glyph")
def test_names_of_others_cannot_spoil_the_plot() -> None:
    names = ["$x", "\\frac{", "a" * 300, "資本的支出", "", "_hidden"]
    assert_drawn(draw("pareto.png", {"points": [point(name, 10.0 + 5 * i) for i, name in enumerate(names)]}))


@example(["\n", "\r", "\t", " ", "\ufffd", "$\\alpha$", "$", "_{x"])
@settings(max_examples=4, deadline=None)
@given(st.lists(st.text(max_size=6), min_size=8, max_size=12))
def test_any_token_can_be_drawn_without_a_complaint(tokens: list[str]) -> None:
    entries = [{"token_id": n, "token_str": text, "delta": 0.05 / (n + 1)} for n, text in enumerate(tokens)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_drawn(draw("wasted_tokens.png", {"v_steer": entries}))
