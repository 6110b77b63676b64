"""The pictures of a run: real PNGs, the same bytes for the same data, whatever names and tokens are in it."""

from __future__ import annotations

import io
import random
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image

from tasks.cpu.plots import EVOLUTION_PLOTS, PLOTS, draw

KINDS = ("plain", *["prompt"] * 12, *["vector"] * 8, "cut", "random", *["evolved"] * 4)


def run_of(population: int, generations: int) -> dict[str, Any]:
    """The history and the tree of an invented run with one elite."""
    rng = random.Random(0)

    def individual(node: str, **more: Any) -> dict[str, Any]:
        tokens, correct = rng.uniform(20, 120), rng.randrange(17) / 16
        fitness = 0.4 / (1 + tokens / 100) + 0.6 * correct
        return {"node": node, "fitness": fitness, "mean_tokens": tokens, "correctness": correct, **more}

    history: list[dict[str, Any]] = []
    nodes: list[dict[str, Any]] = []
    edges: list[tuple[str, str, str]] = []
    for g in range(generations):
        people = [individual(f"g{g}_pop{i}") for i in range(population)]
        children = [individual(f"g{g}_child{j}_mut", target=str(j)) for j in range(population - 1)]
        best, mean = max(one["fitness"] for one in people), sum(one["fitness"] for one in people) / population
        history.append({"generation": g, "best": best, "mean": mean, "best_ever": best})
        history[-1] |= {"population": people, "offspring": children}
        before = [{"node": f"g{g}_child{j}_pre", "fitness": 0.4} for j in range(population - 1)]
        for stage, several in (("pop", people), ("pre", before), ("mut", children)):
            placed = {"generation": g, "stage": stage}
            nodes += [one | placed | {"id": one["node"], "elite": one is people[0]} for one in several]
        edges.append((f"g{g}_pop0", f"g{g + 1}_pop0", "next"))
        for j in range(population - 1):
            pre, mut = f"g{g}_child{j}_pre", f"g{g}_child{j}_mut"
            edges += [(f"g{g}_pop{j}", pre, "parent"), (f"g{g}_pop{j + 1}", pre, "parent")]
            edges += [(pre, mut, "mutation"), (mut, f"g{g + 1}_pop{j + 1}", "next")]
    names = {node["id"] for node in nodes}
    kept = [dict(zip(("from", "to", "kind"), edge, strict=True)) for edge in edges if edge[1] in names]
    return {"history": history, "tree": {"nodes": nodes, "edges": kept}}


def point(name: str, kind: str, tokens: float, share: float) -> dict[str, Any]:
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


def measured(seed: int = 0) -> list[dict[str, Any]]:
    """Thirteen prompts and eight vectors, among others."""
    rng = random.Random(seed)
    return [point(f"{kind} {i}", kind, rng.uniform(5, 70), rng.uniform(0.4, 0.65)) for i, kind in enumerate(KINDS)]


RATE = {"trajectory": "shared", "deployed": "real", "quarantine": "off", "solve": 0.5, "hack": 0.1}
DATA = {"points": measured(), "v_steer": [], "rates": [RATE], "held_out": "B", "rows": {"shared_seed1": []}}


def assert_drawn(png: bytes) -> None:
    """It is a PNG of a sensible size with something on it."""
    image = Image.open(io.BytesIO(png))
    image.load()
    assert image.format == "PNG" and image.width * image.height < 6_000_000
    assert len(image.convert("RGB").reduce(4).getcolors(maxcolors=1 << 24) or ()) > 20


@pytest.mark.parametrize("file", PLOTS)
def test_every_plot_is_drawn_from_the_data_that_it_names(file: str) -> None:
    for population, generations in [(1, 1), (16, 20)] if PLOTS[file] in EVOLUTION_PLOTS else [(1, 1)]:
        assert_drawn(draw(file, DATA | run_of(population, generations)))


def test_the_same_data_gives_the_same_bytes_in_any_thread() -> None:
    # given what one thread draws
    data, files = DATA | run_of(2, 2), ["evolution_lengths.png", "pareto.png"]
    alone = [draw(file, data) for file in files]
    # when four threads draw it all at once
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda file: draw(file, data), files * 2))
    # then the bytes are the same, and hold no time and no version
    assert together == alone * 2
    assert not any(mark in png for png in alone for mark in (b"tEXt", b"iTXt", b"tIME"))
    assert draw("pareto.png", {"points": measured(seed=1)}) != alone[-1]


@pytest.mark.filterwarnings("ignore:Glyph")
def test_names_of_others_cannot_spoil_the_plot() -> None:
    names = ["$x", "\\frac{", "a" * 300, "資本的支出", "", "_hidden"]
    points = [point(name, "prompt", 10 + 5 * i, 0.5) for i, name in enumerate(names)]
    assert_drawn(draw("pareto.png", {"points": points}))


@example(["\n", "\r", "\t", " ", "\ufffd", "$\\alpha$", "$", "_{x"])
@settings(max_examples=4, deadline=None)
@given(st.lists(st.text(max_size=6), min_size=8, max_size=12))
def test_any_token_can_be_drawn_without_a_complaint(tokens: list[str]) -> None:
    entries = [{"token_id": n, "token_str": text, "delta": 0.05 / (n + 1)} for n, text in enumerate(tokens)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_drawn(draw("wasted_tokens.png", {"v_steer": entries}))
