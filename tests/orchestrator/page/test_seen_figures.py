"""Every number that is seen on a page, in a real browser, computed here once more from the run's files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from seen_page import (
    ARROW,
    duration,
    interval,
    lines,
    number,
    percent,
    plural,
    read,
    rows_of,
    signed,
    tiles_of,
)

pytestmark = pytest.mark.long


def test_the_answer(page: Any, finished_run: Path) -> None:
    report, history = read(finished_run, "report.json"), lines(finished_run, "history.jsonl")
    zero, best, pair = report["test"]["zero"], report["test"]["best"], report["comparisons"][0]
    assert page.locator("h1").inner_text() == report["verdict"].replace(" -> ", ARROW)
    said = page.locator("#answer .notes li").all_inner_texts()
    sentences = [
        one.replace(" -> ", ARROW).replace(" -", " −").replace("(-", "(−") for one in report["conclusion"]["sentences"]
    ]
    assert [one.replace(" -", " −").replace("(-", "(−") for one in said] == sentences[1:]
    tiles = tiles_of(page)
    low, high = pair["token_ratio_interval"]
    assert tiles["Tokens an answer"] == [
        f"{signed(100 * (pair['token_ratio'] - 1))} %",
        f"{number(zero['mean_tokens'], 1)} → {number(best['mean_tokens'], 1)}",
        f"95 % interval {interval(low - 1, high - 1)} %",
    ]
    judge = history[-1]["answered"]["judge"]
    assert tiles["Right answers"] == [
        f"{signed(100 * pair['correctness_difference'])} points",
        f"{zero['correct']} → {best['correct']} of {best['n']}",
        f"95 % interval {interval(*pair['correctness_difference_interval'])}",
        *([f"judged by {', '.join(judge)}"] if judge else []),
    ]
    assert tiles["Questions: test set"] == [str(best["n"]), "questions that nothing was chosen on"]
    usage = read(finished_run, "usage.json")
    computed = sum(one["evaluations"]["computed"] for one in history)
    calls, cost = int(usage.get("requests", 0)), usage.get("cost_usd")
    paid = "no calls" if not calls else "unknown" if cost is None else "free" if cost == 0 else f"${cost:.4f}"
    what = [plural(len(history), "generation"), f"{plural(computed, 'evaluation')} computed"]
    what += [plural(calls, "call")] if calls else []
    took = sum(one["seconds"]["wall"] for one in history)
    assert tiles["The search took"] == [duration(took), ", ".join([*what, f"cost: {paid}"])]


@pytest.mark.parametrize("which", ["validation", "test"])
def test_the_systems_in_the_table_and_in_the_chart(page: Any, finished_run: Path, which: str) -> None:
    report = read(finished_run, "report.json")
    measured = [one for one in (*report["systems"], *report["rivals"]) if one[which] is not None]
    plain = report["systems"][0][which]["mean_tokens"]
    button = page.locator("#systems .segments button", has_text=which)
    button.click()
    assert button.inner_text() == f"{which}, {plural(max(one[which]['n'] for one in measured), 'question')}"
    shown = {row[0].split("\n")[0].removesuffix(" ★"): row[1:] for row in rows_of(page.locator("#systems table"))}
    assert shown == {
        one["name"]: [
            number(one[which]["mean_tokens"], 1),
            "–" if one["kind"] == "plain" else f"{signed(100 * (one[which]['mean_tokens'] / plain - 1))} %",
            f"{one[which]['correct']} / {one[which]['n']}",
            percent(one[which]["share_correct"]),
            number(one[which]["fitness"], 4),
        ]
        for one in measured
    }
