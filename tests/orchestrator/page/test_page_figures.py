"""Every figure of a page is that of the run's files, computed here once more from the files themselves."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from page_reader import ReadPage, records

from orchestrator.page.html import page_data, render_page
from orchestrator.results import RunResults

NOW = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)


@pytest.fixture(scope="module")
def page(finished_run: Path) -> ReadPage:
    return ReadPage.of(render_page(page_data([RunResults.open(finished_run)]), NOW))


def read(folder: Path, name: str) -> Any:
    return json.loads((folder / name).read_text())


def lines(folder: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


def test_the_answer_is_that_of_the_test_set(page: ReadPage, finished_run: Path) -> None:
    [run] = page.runs
    digest, report = run["digest"], read(finished_run, "report.json")
    test = next(one for one in read(finished_run, "answers.json") if one["name"].startswith("test set"))
    before, after = test["before"], test["after"]
    assert (
        digest["verdict"]
        == report["verdict"]
        == (finished_run / "report.txt").read_text().split("\n\n")[0].replace("\n", " ")
    )
    assert digest["questions"] == len(after) == 8 and digest["measured_on"] == "test"
    assert digest["tokens_before"] == pytest.approx(fmean(one["tokens"] for one in before))
    assert digest["tokens_after"] == pytest.approx(fmean(one["tokens"] for one in after))
    assert digest["token_change"] == pytest.approx(digest["tokens_after"] / digest["tokens_before"] - 1)
    low, high = report["comparisons"][0]["token_ratio_interval"]
    assert digest["token_change_interval"] == pytest.approx([low - 1, high - 1])
    assert digest["right_before"] == sum(one["is_correct"] for one in before)
    assert digest["right_after"] == sum(one["is_correct"] for one in after)
    assert digest["right_change"] == pytest.approx((digest["right_after"] - digest["right_before"]) / 8)
    assert digest["right_change_interval"] == report["comparisons"][0]["correctness_difference_interval"]
    assert (digest["winner"], digest["test_uses"]) == (report["winner"], report["test_uses"])


def test_what_it_took_is_summed_over_the_history(page: ReadPage, finished_run: Path) -> None:
    [run] = page.runs
    digest, history = run["digest"], lines(finished_run, "history.jsonl")
    assert digest["generations"] == len(history) == len(run["generations"])
    assert digest["seconds"] == pytest.approx(sum(one["seconds"]["wall"] for one in history))
    for name in ("computed", "cached", "carried"):
        assert digest["evaluations"][name] == sum(one["evaluations"][name] for one in history)
    assert digest["best_fitness"] == history[-1]["best_ever"]
    usage = read(finished_run, "usage.json")
    assert run["usage"] == usage
    assert digest["target_tokens"] == usage.get("target", 0) and digest["calls"] == usage.get("requests", 0)
    for shown, line in zip(run["generations"], history, strict=True):
        tokens = [one["mean_tokens"] for one in line["population"]]
        best = max(line["population"], key=lambda one: one["fitness"])
        assert shown["mean_tokens"] == pytest.approx(fmean(tokens)) and shown["fewest_tokens"] == min(tokens)
        assert shown["tokens_of_best"] == best["mean_tokens"]
        for name in ("generation", "best", "mean", "best_ever", "seconds", "evaluations", "calls", "cost_usd"):
            assert shown[name] == line[name], name
        assert shown["tokens"] == line["tokens"]


def test_each_individual_has_its_deltas_and_its_scratchpad(page: ReadPage, finished_run: Path) -> None:
    [run] = page.runs
    shown, recorded = records(run["individuals"]), lines(finished_run, "individuals.jsonl")
    assert [one["name"] for one in shown] == [line["node"] for line in recorded]
    for one, line in zip(shown, recorded, strict=True):
        assert dict(zip(run["cluster_ids"], one["deltas"], strict=True)) == pytest.approx(line["deltas"], abs=1e-6)
        assert (page.long_text(one["scratchpad"]) if one["scratchpad"] is not None else "") == line["scratchpad"]
        for name in ("fitness", "mean_tokens", "correctness"):
            assert one[name] == pytest.approx(line[name], abs=1e-6)
        assert one["target"] == line["target"] and one["generation"] == line["generation"]


def test_the_systems_are_those_of_the_report_and_the_front_is_theirs(page: ReadPage, finished_run: Path) -> None:
    [run] = page.runs
    report, front = read(finished_run, "report.json"), read(finished_run, "pareto.json")
    written = {one["name"]: one for one in (*report["systems"], *report["rivals"])}
    on_front = {point["name"]: point["is_on_front"] for point in front["points"]}
    assert [one["name"] for one in run["systems"]] == list(written)
    for system in run["systems"]:
        original = written[system["name"]]
        assert (system["prompt"], system["deltas"]) == (original["system_prompt"], original["deltas"])
        assert system["is_winner"] == (system["name"] == report["winner"])
        for which in ("validation", "test"):
            figures = system[which] and {name: value for name, value in system[which].items() if name != "is_on_front"}
            assert figures == original[which]
        if system["validation"] is not None:
            assert system["validation"]["is_on_front"] == on_front[system["name"]]
    tested = [one for one in run["systems"] if one["test"] is not None]
    for one in tested:
        beaten = any(
            other["test"]["mean_tokens"] <= one["test"]["mean_tokens"]
            and other["test"]["correct"] >= one["test"]["correct"]
            and (other["test"]["mean_tokens"], other["test"]["correct"])
            != (one["test"]["mean_tokens"], one["test"]["correct"])
            for other in tested
        )
        assert one["test"]["is_on_front"] == (not beaten)


def test_the_answers_are_all_there_with_their_verdicts(page: ReadPage, finished_run: Path) -> None:
    [run] = page.runs
    written = read(finished_run, "answers.json")
    assert [one["name"] for one in run["answers"]] == [one["name"] for one in written]
    for shown, comparison in zip(run["answers"], written, strict=True):
        for row, before, after in zip(records(shown), comparison["before"], comparison["after"], strict=True):
            assert (row["example"], row["question"], row["gold"]) == (
                before["example"],
                before["question"],
                before["gold"],
            )
            for name, one in (("before", before), ("after", after)):
                assert row[name] == one["text"] and row[f"tokens_{name}"] == one["tokens"]
                assert bool(row[f"right_{name}"]) == one["is_correct"] and row[f"reason_{name}"] == one["reasoning"]


def test_clusters_deltas_settings_and_versions_are_those_of_the_folder(page: ReadPage, finished_run: Path) -> None:
    [run] = page.runs
    clusters = read(finished_run, "clusters.json")["clusters"]
    assert run["clusters"] == clusters and run["cluster_ids"] == [one["id"] for one in clusters]
    assert dict(zip(run["cluster_ids"], run["best_deltas"], strict=True)) == read(finished_run, "deltas_best.json")
    settings = {name: value for name, value, _ in run["settings"]}
    assert settings["SEED"] == "7" and settings["POPULATION_SIZE"] == "3"
    differing = {name for name, _, differs in run["settings"] if differs}
    assert {"SEED", "POPULATION_SIZE"} <= differing and "MARGIN" not in differing
    assert run["versions"] == read(finished_run, "versions.json")["sessions"]
    [server] = read(finished_run, "servers.json")["servers"]
    assert run["servers"] == [server | {"arguments": " ".join(server.get("arguments", []))}]
    assert run["questions"] == {"training": 4, "validation": 10, "test": 8}
