"""The files in configs/ and the page in docs/ are complete and current."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.settings import load_settings

ROOT = Path(__file__).parents[3]
SHIPPED = sorted((ROOT / "configs").glob("*.config"))


def test_a_configuration_ships_for_the_embedded_farm_and_for_a_gpu() -> None:
    assert {"embedded.config", "gpu.config"} <= {path.name for path in SHIPPED}


def test_the_embedded_configuration_loads_at_the_root_of_a_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)

    settings = load_settings(Path("configs/embedded.config"))

    assert (settings.farm, settings.target_model, settings.embedder_model) == ("embedded", "embedded", "embedded")
    assert settings.openai_price_prompt is settings.openai_price_completion is None


def test_the_gpu_configuration_loads_at_the_root_of_a_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)

    settings = load_settings(Path("configs/gpu.config"))

    assert (settings.farm, settings.target_engine, settings.device) == ("external", "sglang", "cuda")
    assert settings.target_max_new_tokens == 512


def test_the_zero_deltas_are_zero_for_the_default_clusters() -> None:
    assert json.loads((ROOT / "configs" / "deltas_zero.json").read_text()) == {str(c): 0.0 for c in range(12)}
