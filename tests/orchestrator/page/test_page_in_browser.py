"""A page in a real browser: it shows the figures of the run's files, runs no script of theirs, and asks nobody."""

from __future__ import annotations

import datetime
import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from browser import browser_page, picture
from flower_process import PASSWORD, USER, Flower
from hostile_texts import HOSTILE, with_hostile_texts

from orchestrator.page.html import page_data, render_page
from orchestrator.results import RunResults

pytestmark = pytest.mark.long
NOW = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)


@contextmanager
def opened(path: Path, *runs: Path, **options: Any) -> Iterator[Any]:
    """The page of these runs in a browser, which has found no fault in it and has asked for nothing but the page."""
    path.write_text(render_page(page_data([RunResults.open(run) for run in runs]), NOW))
    faults: list[str] = []
    asked: list[str] = []
    with browser_page(**options) as page:
        page.on("console", lambda message: faults.append(message.text))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.as_uri())
        page.locator("#settings").wait_for()
        yield page
    assert (faults, asked) == ([], [path.as_uri()])


def read(folder: Path, name: str) -> Any:
    return json.loads((folder / name).read_text())


def lines(folder: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


def minus(text: str) -> str:
    """A number as the page writes it: with a minus sign, and zero without a sign."""
    value = text.replace("-", "−")
    return value if re.search("[1-9]", value) else value.lstrip("+−")


def shown_tiles(page: Any) -> dict[str, list[str]]:
    tiles = [tile.inner_text().split("\n") for tile in page.locator(".tile").all()]
    return {title: [text for text in rest if text] for title, *rest in tiles}


def test_the_figures_that_are_seen_are_those_of_the_files(finished_run: Path, tmp_path: Path) -> None:
    report, history = read(finished_run, "report.json"), lines(finished_run, "history.jsonl")
    zero, best, pair = report["test"]["zero"], report["test"]["best"], report["comparisons"][0]
    with opened(tmp_path / "page.html", finished_run) as page:
        assert page.locator("h1").inner_text() == report["verdict"].replace(" -> ", " → ")
        tiles = shown_tiles(page)
        low, high = (minus(f"{100 * (bound - 1):+.1f}") for bound in pair["token_ratio_interval"])
        assert tiles["Tokens an answer"] == [
            minus(f"{100 * (pair['token_ratio'] - 1):+.1f} %"),
            f"{zero['mean_tokens']:.1f} → {best['mean_tokens']:.1f}",
            f"95 % interval {low} to {high} %",
        ]
        assert tiles["Right answers"][1] == f"{zero['correct']} → {best['correct']} of {best['n']}"
        assert tiles["Questions: test set"][0] == str(best["n"])
        took = tiles["It took"][1]
        assert f"{len(history)} generations" in took
        assert f"{sum(one['evaluations']['computed'] for one in history)} evaluations computed" in took
        check_systems(page, report)
        check_deltas(page, finished_run)
        check_generations(page, history)
        check_answers(page, finished_run)
        check_lineage(page, finished_run)
        picture(page, "report_page", tmp_path, full_page=True)


def check_systems(page: Any, report: dict[str, Any]) -> None:
    for which in ("test", "validation"):
        page.locator("#systems .segments button", has_text=which).click()
        measured = [one for one in (*report["systems"], *report["rivals"]) if one[which] is not None]
        plain = report["systems"][0][which]["mean_tokens"]
        rows = page.locator("#systems tbody tr").all()
        shown = {row.locator(".name > span").inner_text().split("\n")[0].removesuffix(" ★"): row for row in rows}
        assert set(shown) == {one["name"] for one in measured}
        for one in measured:
            cells = shown[one["name"]].locator("td").all_inner_texts()
            figures = one[which]
            change = "–" if one["kind"] == "plain" else minus(f"{100 * (figures['mean_tokens'] / plain - 1):+.1f} %")
            assert cells == [
                f"{figures['mean_tokens']:.1f}",
                change,
                f"{figures['correct']} / {figures['n']}",
                f"{100 * figures['share_correct']:.1f} %",
                f"{figures['fitness']:.4f}",
            ]


def check_deltas(page: Any, folder: Path) -> None:
    page.locator("#deltas .segments button", has_text="by cluster").click()
    shown = [row.inner_text().split("\n") for row in page.locator("#deltas .delta").all()]
    best = read(folder, "deltas_best.json")
    assert {row[0]: row[-1] for row in shown} == {cluster: minus(f"{delta:+.3f}") for cluster, delta in best.items()}


def check_generations(page: Any, history: list[dict[str, Any]]) -> None:
    page.locator("#cost summary").click()
    rows = [row.locator("td").all_inner_texts() for row in page.locator("#cost tbody tr").all()]
    for row, line in zip(rows, history, strict=True):
        assert row[0] == str(line["generation"])
        counts = [
            line["evaluations"]["computed"],
            line["evaluations"]["cached"],
            line["calls"],
            line["tokens"]["target"],
        ]
        assert row[-5:-1] == [f"{count:,}" for count in counts]


def check_answers(page: Any, folder: Path) -> None:
    test = next(one for one in read(folder, "answers.json") if one["name"].startswith("test"))
    pairs = list(zip(test["before"], test["after"], strict=True))
    shown = page.locator("#answers .question").all()
    assert len(shown) == len(pairs)
    for card, (before, after) in zip(shown, pairs, strict=True):
        for side, one in zip(card.locator(".side").all(), (before, after), strict=True):
            length = "1 token" if one["tokens"] == 1 else f"{one['tokens']} tokens"
            heads = side.locator("h4 span").all_text_contents()
            assert heads[1:] == [length, "✓ right" if one["is_correct"] else "✗ wrong"]
            assert one["text"] in side.text_content()
    changed = sum(before["text"] != after["text"] for before, after in pairs)
    assert page.locator("#answers button", has_text="changed").inner_text() == f"changed {changed}"
    word = test["before"][2]["example"]
    page.locator("#answers input").fill(word)
    page.locator("#answers .question").nth(0).wait_for()
    assert page.locator("#answers .question .id").all_text_contents() == [word]
    page.locator("#answers input").fill("")


def check_lineage(page: Any, folder: Path) -> None:
    """By the keyboard from one evaluation to another, each with its own figures."""
    recorded = {line["node"]: line for line in lines(folder, "individuals.jsonl")}
    edges = [(edge["from"], edge["to"]) for edge in read(folder, "evolution_tree.json")["edges"]]
    panel = page.locator("#lineage .node")
    page.locator("#lineage select").select_option("g0_child0_mut")
    seen = []
    for key in ("", "ArrowLeft", "ArrowUp", "ArrowDown", "ArrowRight"):
        if key:
            page.locator("#lineage .chart").press(key)
        name = panel.locator("h3").inner_text().removesuffix(" ★")
        line = recorded[name]
        facts = panel.locator(".facts dd").all_inner_texts()
        assert facts[:2] == [f"{line['fitness']:.4f}", f"{line['mean_tokens']:.1f}"]
        if line["scratchpad"]:
            panel.locator("pre", has_text=line["scratchpad"]).first.wait_for()
        seen.append(name)
    assert seen[0] == "g0_child0_mut" and (seen[1], seen[0]) in edges and len(set(seen)) > 2


def test_hostile_texts_are_shown_and_not_run(finished_run: Path, tmp_path: Path) -> None:
    folder = with_hostile_texts(finished_run, tmp_path / "run")
    with opened(tmp_path / "page.html", folder) as page:
        assert page.locator("h1").inner_text() == HOSTILE
        assert page.locator("#answers .side p").first.text_content() == HOSTILE
        page.locator("#lineage .node pre").first.wait_for()
        assert page.locator("#lineage .node pre").first.text_content() == HOSTILE
        assert page.evaluate("[window.hacked, document.images.length, document.scripts.length]") == [None, 0, 2]


@pytest.mark.parametrize("width", [400, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_the_screen_in_both_themes(finished_run: Path, tmp_path: Path, width: int, scheme: str) -> None:
    options: dict[str, Any] = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
    with opened(tmp_path / "page.html", finished_run, finished_run, **options) as page:
        assert page.evaluate("document.documentElement.scrollWidth") == width
        light = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).every((part) => part > 127)"
        assert page.evaluate(light) == (scheme == "light")
        picture(page, f"report_{width}_{scheme}", tmp_path, full_page=True)
        page.locator("button.icon").click()
        assert page.evaluate(light) == (scheme == "dark")
        # Several runs: their figures stand side by side, and each can be looked at
        assert page.locator("#compare thead th").count() == 3
        page.locator(".runs button").nth(1).click()
        assert page.locator(".runs button").nth(1).get_attribute("aria-pressed") == "true"


def test_the_page_in_flower_follows_its_run(valkey_url: str, finished_run: Path, tmp_path: Path) -> None:
    # Given a run of two generations, of which one is recorded
    folder = shutil.copytree(finished_run, tmp_path / "outputs" / "run")
    later = {name: (folder / name).read_bytes() for name in ("answers.json", "report.json", "history.jsonl")}
    (folder / "history.jsonl").write_bytes(later["history.jsonl"].split(b"\n")[0] + b"\n")
    for name in ("answers.json", "report.json"):
        (folder / name).unlink()
    run = RunResults.open(folder).run
    flower = Flower(valkey_url, tmp_path, tmp_path / "outputs")
    try:
        with browser_page(base_url=flower.url, http_credentials={"username": USER, "password": PASSWORD}) as page:
            page.goto("/runs")
            page.locator(f"tr[data-run='{run}'] a.run-page").click()
            assert "1 of 2 generations done" in page.locator("h1").inner_text()
            page.evaluate("window.same = true")
            # When the other one is recorded, and the run ends
            for name, content in later.items():
                (folder / name).write_bytes(content)
            # Then the page shows it, without being loaded anew
            verdict = json.loads(later["report.json"])["verdict"].replace(" -> ", " → ")
            page.locator("h1", has_text=verdict).wait_for(timeout=60_000)
            assert page.evaluate("window.same") and page.locator("#answers .question").count() == 8
            page.locator("#settings").wait_for()
    finally:
        flower.stop()
