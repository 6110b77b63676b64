"""Every number that is seen on a page, in a real browser, computed here once more from the run's files."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from seen_page import (
    ARROW,
    Drawn,
    assert_near,
    duration,
    interval,
    lines,
    number,
    pairs_of,
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
    assert_rival(tiles, report)


def assert_rival(tiles: dict[str, list[str]], report: Any) -> None:
    tested = [one for one in report["rivals"] if one["test"] is not None]
    named = report["conclusion"]["rival"] or max(tested, key=lambda one: one["test"]["fitness"])["name"]
    [rival] = [one for one in tested if one["name"] == named]
    [pair] = [one for one in report["comparisons"] if one["against"] == named]
    longer, more = pair["token_ratio"] - 1, pair["correctness_difference"]
    than = f"{signed(100 * longer)} % tokens" if longer else "as many tokens"
    right = f"{signed(100 * more)} points right" if more else "as many right"
    title = "Against a sentence" if rival["kind"] == "prompt" else "Against a vector without search"
    figures = rival["test"]
    assert tiles[title] == [
        named,
        f"{number(figures['mean_tokens'], 1)} tokens, {figures['correct']} of {figures['n']} right",
        f"beside it the vector has {than} and {right}: {'' if pair['is_better'] else 'not '}shown to be better",
    ]


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
    chart = page.locator("#systems .chart")
    drawn = Drawn.of(chart)
    places = sorted(drawn.points(chart.locator("g.hit circle")))
    wanted = sorted((one[which]["mean_tokens"], one[which]["share_correct"]) for one in measured)
    assert_near(drawn, places, wanted)
    # and a bar over each interval
    bars = chart.locator("g.hit > path:first-child").evaluate_all(
        "all => all.map(one => one.getAttribute('d').match(/[\\d.e-]+/g).map(Number))"
    )
    ends = sorted((drawn.x(x1), drawn.x(x2), drawn.y(y1), drawn.y(y2)) for x1, _, x2, _, y1, y2 in bars)
    written = sorted((*one[which]["mean_tokens_interval"], *one[which]["share_correct_interval"]) for one in measured)
    assert_near(drawn, [end[:2] for end in ends], [one[:2] for one in written], (drawn.step[0],) * 2)
    assert_near(drawn, [end[2:] for end in ends], [one[2:] for one in written], (drawn.step[1],) * 2)


def test_the_answers(page: Any, finished_run: Path) -> None:
    for comparison in read(finished_run, "answers.json"):
        which = comparison["name"].split(" set")[0]
        page.locator("#answers .segments").nth(0).locator("button", has_text=which).click()
        pairs = list(zip(comparison["before"], comparison["after"], strict=True))
        right = [(before["is_correct"], after["is_correct"]) for before, after in pairs]
        counts = [
            len(pairs), sum(before["text"] != after["text"] for before, after in pairs),
            right.count((True, False)), right.count((False, True)), sum(not after for _, after in right),
        ]  # fmt: skip
        shown = page.locator("#answers .segments").nth(1).locator("button").all_inner_texts()
        names = ("all", "changed", "lost", "gained", "wrong after")
        assert shown == [f"{name} {count}" for name, count in zip(names, counts, strict=True)]
        assert (
            f"{len(pairs)} of {plural(len(pairs), 'question')}" in page.locator("#answers [role=status]").inner_text()
        )
        for card, (before, after) in zip(page.locator("#answers .question").all(), pairs, strict=True):
            assert_card(card, before, after)
    example = pairs[2][0]["example"]
    page.locator("#answers input").fill(example)
    assert page.locator("#answers .question .id").all_text_contents() == [example]
    page.locator("#answers input").fill("")


def assert_card(card: Any, before: dict[str, Any], after: dict[str, Any]) -> None:
    saved = before["tokens"] - after["tokens"]
    how = "fewer" if saved > 0 else "more"
    assert card.locator("header .small").inner_text() == (
        f"{plural(abs(saved), 'token')} {how}" if saved else "as long as before"
    )
    both = {
        (True, True): "right both times",
        (True, False): "lost",
        (False, True): "gained",
        (False, False): "wrong both times",
    }
    assert card.locator("header .badge").inner_text() == both[before["is_correct"], after["is_correct"]]
    for side, one in zip(card.locator(".side").all(), (before, after), strict=True):
        heads = side.locator(".head span").all_text_contents()
        assert heads[1:] == [plural(one["tokens"], "token"), "✓ right" if one["is_correct"] else "✗ wrong"]
        assert side.locator(".text").text_content() == one["text"]


def test_cost_and_time(page: Any, finished_run: Path) -> None:
    history, usage = lines(finished_run, "history.jsonl"), read(finished_run, "usage.json")
    sums: dict[str, float] = defaultdict(float)
    for line in history:
        for stage, seconds in line["seconds"].items():
            sums[stage] += seconds
    wall = sums.pop("wall")
    assert page.locator("#cost h3").first.inner_text() == f"{duration(wall)} for {plural(len(history), 'generation')}"
    titles = {
        "answer": "answering",
        "judge": "judging",
        "reflect": "reflecting",
        "merge": "merging scratchpads",
        "score": "scoring",
    }
    shown = page.locator("#cost .stages > span").all_inner_texts()
    assert dict(zip(shown[::2], shown[1::2], strict=True)) == {
        titles[name]: duration(seconds) for name, seconds in sums.items()
    }
    total = {name: sum(line["evaluations"][name] for line in history) for name in ("computed", "cached", "carried")}
    facts = pairs_of(page.locator("#cost dl"))
    assert facts["generated by the target"] == plural(int(usage.get("target", 0)), "token")
    assert facts["calls to the endpoint"] == number(usage.get("requests", 0))
    assert (
        facts["prompt tokens"] == f"{number(usage.get('prompt', 0))}, of which {number(usage.get('cached', 0))} cached"
    )
    assert facts["completion tokens"] == number(usage.get("completion", 0))
    counted = "{computed} computed, {cached} from the cache, {carried} carried over"
    assert facts["evaluations of the search"] == counted.format(**total)
    page.locator("#cost summary").click()
    stages = [name for line in history for name in line["seconds"] if name != "wall"]
    stages = list(dict.fromkeys(stages))
    assert page.locator("#cost thead th").all_inner_texts()[2:-5] == [titles[name] for name in stages]
    assert rows_of(page.locator("#cost table")) == [
        [
            str(line["generation"]), duration(line["seconds"]["wall"]),
            *(duration(line["seconds"][name]) if name in line["seconds"] else "–" for name in stages),
            number(line["evaluations"]["computed"]), number(line["evaluations"]["cached"]), number(line["calls"]),
            number(line["tokens"]["target"]), "free" if line["calls"] else "–",
        ]
        for line in history
    ]  # fmt: skip


def test_settings_questions_and_versions(page: Any, finished_run: Path) -> None:
    page.locator("#settings .segments button", has_text="all").click()
    shown = {name: value for name, value in rows_of(page.locator("#settings table"))}
    for line in (finished_run / "config").read_text().splitlines():
        if line.startswith("CONFIG_"):
            name, _, value = line.removeprefix("CONFIG_").partition("=")
            text = value[1:-1].replace('\\"', '"').replace("\\\\", "\\") if value.startswith('"') else value
            assert shown.pop(name) == (text or "(empty)"), name
    assert set(shown.values()) <= {"n"}  # an option that is off is a comment in the file
    facts = pairs_of(page.locator("#settings dl").first)
    hashes = read(finished_run, "questions.json")
    assert {name: facts[f"{name} set"] for name in ("training", "validation", "test")} == {
        name: plural(len(hashes[name]), "question") for name in ("training", "validation", "test")
    }
    [session] = read(finished_run, "versions.json")["sessions"]
    assert (facts["code"], facts["Python"]) == (session["code"], f"{session['python']} on {session['system']}")
    assert facts["packages"] == ", ".join(f"{name} {version}" for name, version in session["packages"].items())
    [server] = read(finished_run, "servers.json")["servers"]
    page.locator("#settings summary").click()
    listed = pairs_of(page.locator("#settings details dl"))
    assert listed == {name.replace("_", " "): str(value) for name, value in server.items() if value not in ("", [])}
