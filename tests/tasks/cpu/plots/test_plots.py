"""The pictures of a run: real PNGs, the same bytes for the same data."""

from __future__ import annotations

import io
import random
from concurrent.futures import ThreadPoolExecutor

import pytest
from PIL import Image

from tasks.cpu.plots import PLOTS, draw
from tasks.cpu.plots.curves import fitness_png, lengths_png
from tasks.cpu.plots.tree import tree_png


def individual(node: str, rng: random.Random) -> dict:
    tokens, correct = rng.uniform(20, 120), rng.randrange(17) / 16
    fitness = 0.4 / (1 + tokens / 100) + 0.6 * correct
    return {"node": node, "fitness": fitness, "mean_tokens": tokens, "correctness": correct}


def run_of(population: int, generations: int, seed: int = 0) -> tuple[list[dict], dict]:
    """The history and the tree of an invented run with one elite."""
    rng = random.Random(seed)
    history, nodes, edges, record = [], [], [], 0.0
    for g in range(generations):
        people = [individual(f"g{g}_pop{i}", rng) for i in range(population)]
        children = [individual(f"g{g}_child{j}_mut", rng) | {"target": str(j)} for j in range(population - 1)]
        nodes += [one | {"id": one["node"], "generation": g, "stage": "pop", "elite": False} for one in people]
        nodes[-population]["elite"] = True
        edges.append({"from": f"g{g}_pop0", "to": f"g{g + 1}_pop0", "kind": "next"})
        for j, child in enumerate(children):
            before = f"g{g}_child{j}_pre"
            nodes.append({"id": before, "generation": g, "stage": "pre", "fitness": 0.4, "elite": False})
            nodes.append(child | {"id": child["node"], "generation": g, "stage": "mut", "elite": False})
            edges += [{"from": f"g{g}_pop{i}", "to": before, "kind": "parent"} for i in (j, j + 1)]
            edges.append({"from": before, "to": child["node"], "kind": "mutation"})
            edges.append({"from": child["node"], "to": f"g{g + 1}_pop{j + 1}", "kind": "next"})
        found = [one["fitness"] for one in people]
        record = max([record, *found, *(one["fitness"] for one in children)])
        history.append(
            {"generation": g, "best": max(found), "mean": sum(found) / population, "best_ever": record}
            | {"population": people, "offspring": children}
        )
    names = {node["id"] for node in nodes}
    return history, {"nodes": nodes, "edges": [edge for edge in edges if edge["to"] in names]}


def pixels(png: bytes) -> Image.Image:
    image = Image.open(io.BytesIO(png))
    image.load()
    assert image.format == "PNG"
    return image.convert("RGB")


def colours(image: Image.Image) -> int:
    """How many colours it has, at a quarter of its width and height."""
    return len(image.reduce(4).getcolors(maxcolors=1 << 24) or ())


@pytest.mark.parametrize(("population", "generations"), [(1, 1), (4, 1), (4, 3), (16, 20)])
def test_every_size_of_run_gives_pictures_with_something_on_them(population: int, generations: int) -> None:
    history, tree = run_of(population, generations)
    for png in (fitness_png(history), lengths_png(history), tree_png(tree)):
        image = pixels(png)
        assert colours(image) > 20
        assert image.width * image.height < 6_000_000


def test_the_same_data_gives_the_same_bytes_in_any_thread() -> None:
    # given what one thread draws
    history, tree = run_of(4, 3)
    draw = [lambda: fitness_png(history), lambda: lengths_png(history), lambda: tree_png(tree)]
    alone = [one() for one in draw]
    # when four threads draw it all at once, twice
    with ThreadPoolExecutor(4) as pool:
        together = [job.result() for job in [pool.submit(one) for one in draw * 2]]
    # then the bytes are the same, and hold no time and no version
    assert together == alone * 2
    assert not any(mark in png for png in alone for mark in (b"tEXt", b"iTXt", b"tIME"))


@pytest.mark.parametrize("file", PLOTS)
def test_every_plot_of_the_table_is_drawn_from_the_data_that_it_names(file: str) -> None:
    history, tree = run_of(2, 1)
    point = {"name": "plain", "kind": "plain", "set": "training", "is_on_front": True, "is_winner": False, "whole": 1.0}
    point |= {"mean_tokens": 9.0, "mean_tokens_interval": [8.0, 10.0], "correct": 0.5, "correct_interval": [0.4, 0.6]}
    rate = {"trajectory": "shared", "deployed": "real", "quarantine": "off", "solve": 0.5, "hack": 0.1}
    data = {"history": history, "tree": tree, "points": [point], "v_steer": [], "rates": [rate], "held_out": "B"}
    assert colours(pixels(draw(file, data | {"rows": {"shared_seed1": []}}))) > 20
