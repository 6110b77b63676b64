"""How many clusters settings ask for, which of them are pinned, and where the answers for clusters by waste are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator.settings import cluster_layout, layout_of, load_settings, make_run, pinned_of, read_sides
from orchestrator.settings.clusters import pinned_positions
from tasks.models import Sides

WASTE = ["CLUSTERS_BY=waste", "INITIAL_DELTAS_PATH=zero"]
MEANING_12, WASTE_14 = cluster_layout("meaning", 10, 10), cluster_layout("waste", 10, 10)


def collected(folder: Path, pairs: object) -> Path:
    path = folder / "phase0_data.json"
    path.write_text(json.dumps({"splits": {"train": [{"gold_answer": "7", "retained_pairs": pairs}]}}))
    return path


def pair(verbose: object, compressed: object) -> dict[str, object]:
    return {"verbose_answer": verbose, "compressed_answer": compressed, "correctness": {"is_correct": True}}


def test_ten_clusters_of_k_means_make_twelve_and_ten_buckets_make_fourteen() -> None:
    assert MEANING_12.ids == tuple(map(str, range(12)))
    assert WASTE_14.ids == tuple(map(str, range(14)))
    assert (MEANING_12.rest, WASTE_14.rest) == (None, 13)


@pytest.mark.parametrize(
    ("layout", "optimiser", "pinned"),
    [
        (MEANING_12, "reflective", ()),
        (MEANING_12, "cma", (2,)),
        (MEANING_12, "lineage", (2,)),
        (WASTE_14, "reflective", (13,)),
        (WASTE_14, "cma", (13,)),
    ],
)
def test_one_cluster_is_pinned_but_for_reflective(layout: Any, optimiser: str, pinned: Any) -> None:
    assert pinned_positions(layout, optimiser) == pinned


def test_the_workers_know_the_buckets_and_what_is_pinned(sound: Any) -> None:
    settings = load_settings(sound.path, [*WASTE, "WASTE_BUCKETS=4"])
    assert (layout_of(settings).count, pinned_of(settings)) == (8, (7,))
    run = make_run(settings, "here")
    assert (run.clusters.by, run.clusters.buckets, run.pinned_clusters) == ("waste", 4, (7,))


def test_deltas_of_other_clusters_are_refused_with_the_way_out(problems: Any) -> None:
    [told] = problems("CLUSTERS_BY=waste")
    assert told.startswith("CONFIG_INITIAL_DELTAS_PATH: ")
    assert "lacks '12', '13' (the clusters are '0' to '13', WASTE_BUCKETS + 3)" in told
    assert told.endswith("; the value zero in place of a file is 0 for each")


def test_the_retained_pairs_are_the_two_sides(sound: Any, tmp_path: Path) -> None:
    path = collected(tmp_path, [pair("The answer is 7.", "7"), pair("It is 7, as said.", "It is 7.")])
    assert read_sides(path) == Sides(("The answer is 7.", "It is 7, as said."), ("7", "It is 7."))
    settings = load_settings(sound.path, [*WASTE, f"CLUSTERS_WASTE_FROM={path}"])
    assert settings.clusters_waste_from == path


@pytest.mark.parametrize(
    ("pairs", "reason"),
    [
        ([], "has no retained pairs"),
        ([pair("a", None)], "retained_pairs[0].compressed_answer"),
        (None, "retained_pairs"),
    ],
)
def test_a_file_without_pairs_is_refused(problems: Any, tmp_path: Path, pairs: object, reason: str) -> None:
    [told] = problems(*WASTE, f"CLUSTERS_WASTE_FROM={collected(tmp_path, pairs)}")
    assert told.startswith("CONFIG_CLUSTERS_WASTE_FROM: ") and reason in told


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"splits": []}', "\x00", "[" * 100_000])
def test_another_file_is_refused(problems: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path("other.json")
    path.write_text(text)
    [told] = problems(*WASTE, f"CLUSTERS_WASTE_FROM={path}")
    assert told.startswith("CONFIG_CLUSTERS_WASTE_FROM: ")
    with pytest.raises(ValueError, match=r"other\.json"):
        read_sides(path)


def test_a_file_that_would_not_be_used_is_refused(problems: Any, tmp_path: Path) -> None:
    path = collected(tmp_path, [pair("a", "b")])
    assert problems(f"CLUSTERS_WASTE_FROM={path}") == (
        "CONFIG_CLUSTERS_WASTE_FROM: is of CLUSTERS_BY 'waste', which is 'meaning'",
    )
    assert problems(*WASTE, f"CLUSTERS_FROM={path}") == (
        "CONFIG_CLUSTERS_FROM: is of CLUSTERS_BY 'meaning', which is 'waste'; name the file in CLUSTERS_WASTE_FROM",
    )
