"""The configuration of the compose file's orchestrator is the embedded one on another farm."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from orchestrator.settings import load_settings

ROOT = Path(__file__).parents[2]


def test_it_differs_from_the_embedded_one_in_the_farm_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    here, embedded = (
        dataclasses.asdict(load_settings(Path(p))) for p in ("ops/compose.config", "configs/embedded.config")
    )
    assert {n: here[n] for n in here if here[n] != embedded[n]} == {
        "farm": "external",
        "output_dir": Path("outputs/compose"),
    }
