"""Money goes only where the settings send it: a key in the environment does not choose the endpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.farm import FarmUnavailable
from orchestrator.farm.connection import control, embedded_farm, farm_spec
from orchestrator.settings import SettingsError
from orchestrator.settings.kconfig import load_settings
from orchestrator.settings.options import Settings
from orchestrator.settings.run import make_run

ROOT = Path(__file__).parents[3]
ADDRESS = "OPENAI_BASE_URL=https://api.example/v1"


@pytest.fixture(autouse=True)
def at_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def settings(*overrides: str) -> Settings:
    return load_settings(ROOT / "configs" / "embedded.config", overrides)


def test_an_exported_key_does_not_turn_rules_into_a_paid_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given a key in the environment, under either name
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-mine")
    monkeypatch.setenv("MY_KEY", "sk-of-mine")
    for name in ("OPENAI_API_KEY", "MY_KEY"):
        chosen = settings(f"OPENAI_API_KEY_ENV={name}")
        # When the embedded configuration starts a farm, then its endpoint is the one with rules
        assert farm_spec(chosen).embedded_endpoint
        # And calls use the key that the farm gives its own workers, at a known price
        endpoint = make_run(chosen, "run").endpoint
        assert (endpoint.base_url, endpoint.api_key_env) == ("", "OPENAI_API_KEY")
        assert (endpoint.price_prompt, endpoint.price_cached, endpoint.price_completion) == (0, 0, 0)


def test_a_real_endpoint_needs_a_key_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY_FILE", raising=False)
    with pytest.raises(SettingsError, match="CONFIG_OPENAI_BASE_URL: "):
        farm_spec(settings(ADDRESS))


@pytest.mark.parametrize(
    ("endpoint_url", "overrides", "found"),
    [
        (None, [], "call a real endpoint"),
        ("http://127.0.0.1:9/v1", [ADDRESS], "answer by rules"),
    ],
)
def test_a_farm_that_is_already_up_with_the_other_endpoint_is_refused(
    endpoint_url: str | None,
    overrides: list[str],
    found: str,
    tmp_path: Path,
    valkey_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a farm that somebody has started, whose endpoint is not the one of the settings
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-mine")
    farm = control.Farm(tmp_path, valkey_url, endpoint_url, None, None)
    monkeypatch.setattr(control, "attach_or_start", lambda spec: farm)
    # When a run opens it, then nothing is sent, and the error says what to do
    refused = pytest.raises(FarmUnavailable, match=f"{found}.*orchestrator farm down")
    with refused, embedded_farm(farm_spec(settings(*overrides)), lambda line: None):
        pytest.fail("the farm was used")
