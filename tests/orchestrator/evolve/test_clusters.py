"""The answers that make clusters by waste: those of a collection, and those that a run keeps of its own."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from orchestrator.evolve.arms import Clusters, collected_sides
from orchestrator.evolve.systems import Arm
from orchestrator.runs.folder import OutputError, OutputFolder
from orchestrator.settings import SettingsError
from orchestrator.settings.kconfig import load_settings
from tasks.records import Sides
from tasks.store.store import Store

ROOT = Path(__file__).parents[3]
WASTE = ["CLUSTERS_BY=waste", "INITIAL_DELTAS_PATH=zero"]


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def test_clusters_by_waste_take_the_answers_of_a_collection_where_one_is_named(tmp_path: Path) -> None:
    assert collected_sides(load_settings(ROOT / "configs" / "embedded.config", WASTE)) is None
    path = tmp_path / "phase0_data.json"
    pairs = [{"verbose_answer": "It is so.", "compressed_answer": "Yes."}]
    path.write_text(json.dumps({"splits": {"train": [{"retained_pairs": pairs}]}}))
    settings = load_settings(ROOT / "configs" / "embedded.config", [*WASTE, f"CLUSTERS_FROM={path}"])
    assert collected_sides(settings) == Sides(("It is so.",), ("Yes.",))
    # A file that goes between is reported as a setting
    path.unlink()
    with pytest.raises(SettingsError, match="CONFIG_CLUSTERS_FROM"):
        collected_sides(settings)


def test_clusters_whose_answers_are_lost_with_the_store_are_refused_by_the_file_that_had_them(
    store: Store, tmp_path: Path
) -> None:
    lost: Any = SimpleNamespace(dispatcher=SimpleNamespace(store=store, run_id="run"))
    settings = load_settings(ROOT / "configs" / "embedded.config", WASTE)
    clusters = Clusters(lost, settings, OutputFolder(tmp_path), lambda step, progress: None)
    with pytest.raises(OutputError, match=r"cluster_sides\.json does not make the clusters abcd again"):
        clusters.restore([Arm("plain", "", "abcd")])
