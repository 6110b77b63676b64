"""The plot of all systems, whatever their names are."""

from __future__ import annotations

import io
import random

import pytest
from PIL import Image

from tasks.cpu.plots.found import pareto_png

KINDS = ("plain", *["prompt"] * 12, *["vector"] * 8, "cut", "random", *["evolved"] * 4)


def point(name: str, kind: str, tokens: float, share: float) -> dict:
    return {
        "name": name,
        "kind": kind,
        "mean_tokens": tokens,
        "mean_tokens_interval": [0.9 * tokens, 1.1 * tokens],
        "set": "ordering",
        "correct": share,
        "correct_interval": [max(0.0, share - 0.08), min(1.0, share + 0.08)],
        "whole": 0.2 if kind == "cut" else 0.9,
        "is_on_front": kind == "evolved",
        "is_winner": name == "evolved 26",
    }


def measured(seed: int = 0) -> list[dict]:
    rng = random.Random(seed)
    return [point(f"{kind} {i}", kind, rng.uniform(5, 70), rng.uniform(0.4, 0.65)) for i, kind in enumerate(KINDS)]


def test_thirteen_prompts_and_eight_vectors_are_drawn_the_same_way_each_time() -> None:
    png = pareto_png(measured())
    image = Image.open(io.BytesIO(png))
    assert image.size == (1300, 910)
    assert png == pareto_png(measured())
    assert png != pareto_png(measured(seed=1))


@pytest.mark.filterwarnings("ignore:Glyph")
def test_names_of_others_cannot_spoil_the_plot() -> None:
    names = ["$x", "\\frac{", "a" * 300, "資本的支出", "", "_hidden"]
    points = [point(name, "prompt", 10 + 5 * i, 0.5) for i, name in enumerate(names)]
    assert pareto_png(points).startswith(b"\x89PNG")
