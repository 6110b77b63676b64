"""What is seen of a search on a page, in a real browser: generations, lineage and deltas, from the run's files."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from seen_page import (
    Drawn,
    assert_near,
    lines,
    number,
    pairs_of,
    percent,
    plural,
    read,
    rows_of,
    signed,
    texts_of,
)

pytestmark = pytest.mark.long


def test_the_generations_of_the_search(page: Any, finished_run: Path) -> None:
    history, individuals = lines(finished_run, "history.jsonl"), lines(finished_run, "individuals.jsonl")
    best = [max(one["population"], key=lambda member: member["fitness"])["mean_tokens"] for one in history]
    mean = [fmean(member["mean_tokens"] for member in one["population"]) for one in history]
    fewest = [min(member["mean_tokens"] for member in one["population"]) for one in history]
    series = [
        [[one[name] for one in history] for name in ("best_ever", "best", "mean")],
        [best, mean, [individuals[0]["mean_tokens"]] * len(history)],
    ]
    for chart, values in zip(page.locator("#search .chart").all(), series, strict=True):
        drawn = Drawn.of(chart)
        places = drawn.points(chart.locator("circle:not([fill=transparent])"))
        assert_near(drawn, places, [(i, value) for one in values for i, value in enumerate(one)])
    page.locator("#search summary").click()
    assert rows_of(page.locator("#search table")) == [
        [
            str(one["generation"]),
            *(number(one[name], 4) for name in ("best_ever", "best", "mean")),
            *(number(tokens[i], 1) for tokens in (best, mean, fewest)),
        ]
        for i, one in enumerate(history)
    ]


def test_the_lineage(page: Any, finished_run: Path) -> None:
    recorded = {line["node"]: line for line in lines(finished_run, "individuals.jsonl")}
    edges = [(one["from"], one["to"]) for one in read(finished_run, "evolution_tree.json")["edges"]]
    assert plural(len(recorded), "evaluation") in page.locator("#lineage > header p").inner_text()
    for measure, name in (
        ("tokens an answer", "mean_tokens"),
        ("right answers", "correctness"),
        ("fitness", "fitness"),
    ):
        page.locator("#lineage .segments button", has_text=measure).click()
        chart = page.locator("#lineage .chart")
        drawn = Drawn.of(chart)
        heights = [height for _, height in drawn.points(chart.locator("g.hit circle"))]
        for height, line in zip(heights, recorded.values(), strict=True):
            assert abs(height - line[name]) <= drawn.step[1], line["node"]
    choices = page.locator("#lineage select option").all_inner_texts()[1:]
    order = sorted(recorded.values(), key=lambda line: -line["fitness"])
    assert choices == [f"{line['node']} · {number(line['fitness'], 4)}" for line in order]
    # By the keyboard from one evaluation to another, each with its own figures
    panel, seen = page.locator("#lineage .node"), []
    page.locator("#lineage select").select_option("g0_child0_mut")
    for key in ("", "ArrowLeft", "ArrowUp", "ArrowDown", "ArrowRight"):
        if key:
            page.locator("#lineage .chart").press(key)
        name = panel.locator("h3").inner_text().removesuffix(" ★")
        line = recorded[name]
        assert pairs_of(panel.locator(".facts")) == {
            "fitness": number(line["fitness"], 4),
            "tokens": number(line["mean_tokens"], 1),
            "right": percent(line["correctness"]),
            "generation": str(line["generation"]),
        }
        related = panel.locator(".links button").all_inner_texts()
        assert related == [a for a, b in edges if b == name and a in recorded] + [
            b for a, b in edges if a == name and b in recorded
        ]
        assert_deltas(panel, line["deltas"], [recorded[a]["deltas"] for a, b in edges if b == name and a in recorded])
        if line["scratchpad"]:
            panel.locator("pre", has_text=line["scratchpad"]).first.wait_for()
        seen.append(name)
    assert seen[0] == "g0_child0_mut" and (seen[1], seen[0]) in edges and len(set(seen)) > 2


def assert_deltas(panel: Any, deltas: dict[str, float], above: list[dict[str, float]]) -> None:
    """Those that are not 0 or that have changed, with what they were before where there is one ancestor."""
    before = above[0] if len(above) == 1 else deltas
    wanted = []
    for cluster, delta in deltas.items():
        was = f"was {signed(before[cluster], 3)} " if before[cluster] != delta else ""
        if delta or was:
            wanted.append([cluster, was + signed(delta, 3)])
    assert [texts_of(row) for row in panel.locator(".delta").all()] == wanted


def test_the_deltas_of_each_vector(page: Any, finished_run: Path) -> None:
    report, clusters = read(finished_run, "report.json"), read(finished_run, "clusters.json")["clusters"]
    page.locator("#deltas .segments button", has_text="by cluster").click()
    vectors = [list(read(finished_run, "deltas_best.json").values())]
    vectors += [
        one["deltas"]
        for one in (*report["systems"], *report["rivals"])
        if any(one["deltas"]) and one["name"] != report["winner"]
    ]
    choice = page.locator("#deltas select")
    assert choice.locator("option").count() == len(vectors)
    for i, deltas in enumerate(vectors):
        choice.select_option(str(i))
        rows = page.locator("#deltas .delta").all()
        for row, cluster, delta in zip(rows, clusters, deltas, strict=True):
            shown = texts_of(row)
            assert (shown[0], shown[-1]) == (cluster["id"], signed(delta, 3))
            assert not cluster["count"] or f"· {plural(cluster['count'], 'token')}" in row.inner_text()
