"""The output of a collection is read again, and what is damaged in it is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from collected_folder import DOCUMENT, collected_folder

from orchestrator.collect.report import read_collection
from orchestrator.runs.folder import OutputError


def test_pairs_and_tokens_are_read(tmp_path: Path) -> None:
    found = read_collection(collected_folder(tmp_path), {"phase0.output_path": "/nowhere/phase0_data.json"})
    assert found is not None
    pairs = [pair for one in found["splits"]["train"] for pair in (*one["retained_pairs"], *one["discarded_pairs"])]
    assert [len(pair.get("verbose_token_ids", ())) for pair in pairs] == [8, 6, 0]
    assert [token["token_str"] for token in found["token_selection"]["v_steer"]] == [" the", "\n"]


def test_a_collection_at_work_has_no_output(tmp_path: Path) -> None:
    assert read_collection(tmp_path, {"phase0.output_path": str(tmp_path / "phase0_data.json")}) is None


@pytest.mark.parametrize("damage", [{"splits": 3}, {"token_selection": {**DOCUMENT["token_selection"], "freq_raw": 3}}])
def test_a_damaged_output_is_named(tmp_path: Path, damage: dict[str, Any]) -> None:
    path = collected_folder(tmp_path) / "phase0_data.json"
    path.write_text(json.dumps(DOCUMENT | damage))
    with pytest.raises(OutputError, match=r"phase0_data\.json cannot be read: "):
        read_collection(tmp_path, {"phase0.output_path": str(path)})
