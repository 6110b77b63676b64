"""A page of a collection has its pairs and its wasted tokens; figures are those of the output file."""

from __future__ import annotations

import datetime
from pathlib import Path
from statistics import fmean

import pytest
from collected_folder import collected_folder
from page_reader import ReadPage, records

from orchestrator.page.html import page_data, render_page
from orchestrator.results import RunResults

NOW = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)


def test_the_figures_are_those_of_the_output(tmp_path: Path) -> None:
    [run] = ReadPage.of(render_page(page_data([RunResults.open(collected_folder(tmp_path))]), NOW)).runs
    digest = run["digest"]
    assert (digest["kind"], digest["state"], digest["retained_pairs"], digest["wasted_tokens"]) == (
        "collect",
        "finished",
        2,
        2,
    )
    assert digest["tokens_before"] == fmean([8, 6]) and digest["tokens_after"] == fmean([3, 5])
    assert digest["token_change"] == pytest.approx(4 / 7 - 1)
    assert digest["verdict"].startswith("2 of 3 compressed answers are correct, and 2 tokens")
    assert [(one["text"], one["delta"], one["verbose"], one["compressed"]) for one in run["wasted"]] == [
        (" the", 0.2, 0.5, 0.3),
        ("\n", 0.1, 0.2, 0.1),
    ]
    rows = records(run["answers"][0])
    assert [(row["tokens_before"], row["tokens_after"], row["is_retained"]) for row in rows] == [
        (8, 3, 1),
        (6, 5, 1),
        (None, None, 0),
    ]
    assert ["seed", "4", True] in run["settings"]


def test_a_collection_at_work_has_no_tokens_yet(tmp_path: Path) -> None:
    folder = collected_folder(tmp_path)
    (folder / "phase0_data.json").unlink()
    [run] = page_data([RunResults.open(folder)])["runs"]
    assert (run["wasted"], run["answers"], run["digest"]["verdict"]) == ([], [], None)
