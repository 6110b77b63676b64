"""What is seen of several runs, of a collection, and of a run that has not ended, in a real browser."""

from __future__ import annotations

from pathlib import Path

import pytest
from collected_folder import collected_folder
from seen_page import (
    ARROW,
    Drawn,
    assert_near,
    duration,
    interval,
    lines,
    number,
    opened,
    percent,
    read,
    rows_of,
    signed,
    tiles_of,
)

pytestmark = pytest.mark.long


def test_two_runs_side_by_side(finished_run: Path, tmp_path: Path) -> None:
    report, history = read(finished_run, "report.json"), lines(finished_run, "history.jsonl")
    zero, best, pair = report["test"]["zero"], report["test"]["best"], report["comparisons"][0]
    low, high = pair["token_ratio_interval"]
    with opened(tmp_path / "page.html", finished_run, finished_run) as both:
        rows = {name: cells for name, *cells in rows_of(both.locator("#compare table"))}
        drawn = Drawn.of(both.locator("#compare .chart"))
        places = drawn.points(both.locator("#compare .chart circle:not([fill=transparent])"))
    assert all(one == other for one, other in rows.values())
    shown = {name: cells[0].replace("\n", " ") for name, cells in rows.items()}
    assert shown["conclusion"] == report["verdict"].replace(" -> ", ARROW)
    assert shown["measured on"] == f"{best['n']} test questions"
    assert shown["tokens an answer"] == f"{number(zero['mean_tokens'], 1)} → {number(best['mean_tokens'], 1)}"
    assert shown["change of tokens"] == f"{signed(100 * (pair['token_ratio'] - 1))} % {interval(low - 1, high - 1)} %"
    assert shown["right answers"] == f"{zero['correct']} → {best['correct']} of {best['n']}"
    change = f"{signed(100 * pair['correctness_difference'])} points"
    assert shown["change of right answers"] == f"{change} {interval(*pair['correctness_difference_interval'])}"
    assert shown["best fitness of the search"] == number(history[-1]["best_ever"], 4)
    assert shown["generations"] == str(len(history))
    total = {name: sum(line["evaluations"][name] for line in history) for name in ("computed", "cached")}
    assert shown["search evaluations"] == "{computed} computed, {cached} cached".format(**total)
    assert shown["search time"] == duration(sum(line["seconds"]["wall"] for line in history))
    assert shown["generated tokens"] == number(read(finished_run, "usage.json").get("target", 0))
    assert (shown["optimiser"], shown["seed"]) == ("reflective", "7")
    assert_near(drawn, places, [(i, line["best_ever"]) for _ in range(2) for i, line in enumerate(history)])


def test_a_collection(tmp_path: Path) -> None:
    folder = collected_folder(tmp_path / "run")
    found = read(folder, "phase0_data.json")["token_selection"]
    with opened(tmp_path / "page.html", folder) as page:
        tiles = tiles_of(page)
        assert tiles["Tokens a retained answer"] == [f"{signed(100 * ((3 + 5) / (8 + 6) - 1))} %", "7.0 → 4.0"]
        assert tiles["Retained pairs"] == ["2", "of 3 pairs from 2 examples"]
        assert tiles["Wasted tokens"] == ["2", "more frequent before compression"]
        rows = [row[2:] for row in rows_of(page.locator("#wasted table"))]
        assert rows == [
            [
                percent(found["freq_raw"][str(one["token_id"])], 3),
                percent(found["freq_comp"][str(one["token_id"])], 3),
                signed(100 * one["delta"], 3),
            ]
            for one in found["v_steer"]
        ]
        shown = page.locator("#answers .segments button").all_inner_texts()
        assert shown == ["all 3", "retained 2", "discarded 1"]
        assert page.locator("#answers header .small").all_inner_texts() == ["5 tokens fewer", "1 token fewer"]
