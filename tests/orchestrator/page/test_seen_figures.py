"""Every number that is seen on a page, in a real browser, computed here once more from the run's files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
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
    opened,
    pairs_of,
    percent,
    plural,
    read,
    rows_of,
    signed,
    texts_of,
    tiles_of,
)

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def page(finished_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The page of one run; each test leaves its own part of it as it likes."""
    with opened(tmp_path_factory.mktemp("page") / "page.html", finished_run) as opened_page:
        yield opened_page


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
    assert facts["evaluations"] == "{computed} computed, {cached} from the cache, {carried} carried over".format(
        **total
    )
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
