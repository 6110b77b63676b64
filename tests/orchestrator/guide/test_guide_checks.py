"""What is refused before anything is started, and how a served model and its endpoint follow from the settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from dotted_values import with_value
from guide_values import guide_values

from orchestrator.guide.inputs import check_guide
from orchestrator.guide.settings import GuideOptions, guide_settings_from
from orchestrator.settings import SettingsError


@pytest.fixture
def values(tmp_path: Path) -> dict[str, Any]:
    entry = {"step": 0, "updated_at": "", "experiences": {"G0": "look at every image"}}
    (tmp_path / "guidance.json").write_text(json.dumps({"cabinet": entry}))
    return guide_values(tmp_path)


def problems(values: dict[str, Any], **options: Any) -> list[str]:
    """The options and keys that are refused."""
    with pytest.raises(SettingsError) as refused:
        check_guide(guide_settings_from(values), GuideOptions(**options))
    return [problem.partition(": ")[0] for problem in refused.value.problems]


def test_all_that_does_not_fit_is_told_at_once(values: dict[str, Any]) -> None:
    check_guide(guide_settings_from(values), GuideOptions())
    values = with_value(with_value(values, "missions", {"cabinet": "f", "tower 2": "f"}), "output.root", "/dev/null")
    values = with_value(with_value(values, "critic.prompt_path", "none.txt"), "reflection.prompt_path", "/dev/zero")
    values = with_value(values, "verifier", "nobody:has_it")
    assert problems(values, sglang_url="http://h:1") == [
        "--sglang-url", "guidance.path", "output.root", "verifier", "critic.prompt_path",
        "reflection.prompt_path",
    ]  # fmt: skip


def test_an_endpoint_of_ones_own_needs_a_key_and_rules_an_embedded_farm(
    values: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MY_KEY", raising=False)
    own = {"model": "m", "api_base": "http://h:1/v1", "api_key_env": "MY_KEY"}
    assert problems(with_value(values, "endpoint", own)) == ["endpoint.api_key_env"]
    assert problems(values, farm="external") == ["endpoint.api_base"]
