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
    assert found is not None and found.path == tmp_path / "phase0_data.json"
    assert (found.model, found.reflector, found.judge, found.examples) == ("m", "r", "j", 2)
    assert [(pair.verbose_tokens, pair.is_retained) for pair in found.pairs] == [(8, True), (6, True), (None, False)]
    assert [(token.text, token.verbose) for token in found.tokens] == [(" the", 0.5), ("\n", 0.2)]


def test_a_collection_at_work_has_no_output(tmp_path: Path) -> None:
    assert read_collection(tmp_path, {"phase0.output_path": str(tmp_path / "phase0_data.json")}) is None


@pytest.mark.parametrize(
    "damage", [{"splits": 3}, {"token_selection": {**DOCUMENT["token_selection"], "freq_raw": {}}}, {"metadata": {}}]
)
def test_a_damaged_output_is_named(tmp_path: Path, damage: dict[str, Any]) -> None:
    path = collected_folder(tmp_path) / "phase0_data.json"
    path.write_text(json.dumps(DOCUMENT | damage))
    with pytest.raises(OutputError, match=r"phase0_data\.json cannot be read: "):
        read_collection(tmp_path, {"phase0.output_path": str(path)})
