"""What is refused before anything is started: the farm's options, the first experiences, the output folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from dotted_values import with_value
from guide_values import guide_values

from orchestrator.guide.checks import check_guide
from orchestrator.guide.options import GuideOptions
from orchestrator.guide.settings import guide_settings_from
from orchestrator.settings import SettingsError


@pytest.fixture
def values(tmp_path: Path) -> dict[str, Any]:
    entry = {"step": 0, "updated_at": "", "experiences": {"G0": "look at every image"}}
    (tmp_path / "guidance.json").write_text(json.dumps({"cabinet": entry}))
    return guide_values(tmp_path)


def problems(values: dict[str, Any], **options: Any) -> list[str]:
    with pytest.raises(SettingsError) as refused:
        check_guide(guide_settings_from(values), GuideOptions(**options))
    return list(refused.value.problems)


def test_what_fits_is_started(values: dict[str, Any]) -> None:
    check_guide(guide_settings_from(values), GuideOptions())


def test_all_that_does_not_fit_is_told_at_once(values: dict[str, Any], tmp_path: Path) -> None:
    values = with_value(with_value(values, "missions", {"cabinet": "f", "tower 2": "f"}), "output.root", "/dev/null")
    values = with_value(with_value(values, "critic.prompt_path", "none.txt"), "reflection.prompt_path", "/dev/zero")
    assert problems(values, redis_url="redis://h:1/0", budget_usd=1.0, sglang_url="http://h:1") == [
        "--redis-url: goes with --farm external, and only with that",
        '--sglang-url: is not asked while model.model_name_or_path is "embedded"',
        "--budget: needs --price-prompt, --price-cached and --price-completion",
        f"guidance.path: {tmp_path / 'guidance.json'} has no experiences of missions.'tower 2'",
        "output.root: /dev/null: Not a directory",
        "critic.prompt_path: none.txt: No such file or directory",
        "reflection.prompt_path: /dev/zero: it is no regular file",
    ]


def test_an_endpoint_of_ones_own_needs_a_key_and_rules_an_embedded_farm(
    values: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MY_KEY", raising=False)
    own = {"model": "m", "api_base": "http://h:1/v1", "api_key_env": "MY_KEY"}
    assert problems(with_value(values, "endpoint", own)) == [
        "endpoint.api_key_env: neither MY_KEY nor the file named by MY_KEY_FILE holds a key"
    ]
    assert problems(values, farm="external") == ['endpoint.api_base: "embedded" needs --farm embedded']


def test_a_run_that_has_begun_needs_the_first_file_no_more(values: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "guidance.json").unlink()
    assert problems(values) == [f"guidance.path: {tmp_path}/guidance.json cannot be read: there is no such file"]
    (tmp_path / "outputs" / "run" / "cabinet").mkdir(parents=True)
    check_guide(guide_settings_from(values), GuideOptions())


def test_a_verifier_that_is_not_installed_is_named(values: dict[str, Any]) -> None:
    [line] = problems(with_value(values, "verifier", "nobody:knows"))
    assert line.startswith("verifier: the verifier 'nobody:knows' cannot be loaded: ")
