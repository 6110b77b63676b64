"""What is refused before anything is started: all that is wrong in the YAML file, its files and options, at once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from dotted_values import with_value, without_key
from guided_world import ROOT, guide_values, write_guidance

from orchestrator.guide.guidance import read_guidance
from orchestrator.guide.inputs import check_guide
from orchestrator.guide.settings import GuideOptions, guide_settings_from, read_guide_settings
from orchestrator.settings import SettingsError

# The keys that a file must have, written down a second time, so that none can be dropped by mistake.
MANDATORY = """
stage_a_paths missions model.model_name_or_path guidance.path output.root critic.prompt_path
reflection.prompt_path reflection.batch_size reflection.apply_if_delta reflection.allow_uncertain
reflection.max_operations reflection.change_cap_per_epoch reflection.eligibility_policy reflection.all_wrong_strategy
""".split()  # noqa: SIM905  # readable


@pytest.fixture
def values(tmp_path: Path) -> dict[str, Any]:
    return guide_values(tmp_path)


def refused(values: Mapping[str, Any], **options: Any) -> list[str]:
    """The keys that are refused: those of the file, and where it can be read those of its files and the options."""
    with pytest.raises(SettingsError) as error:
        check_guide(guide_settings_from(values), GuideOptions(**options))
    return [problem.partition(": ")[0] for problem in error.value.problems]


def test_the_mandatory_keys_are_these_and_no_others(values: dict[str, Any]) -> None:
    short: dict[str, Any] = {}
    for name in MANDATORY:
        assert refused(without_key(values, name)) == [name] == refused(with_value(values, name, None))
        section, _, key = name.rpartition(".")
        (short.setdefault(section, {}) if section else short)[key] = (values[section] if section else values)[key]
    settings = guide_settings_from(short)
    assert not settings.needs_endpoint and settings.gate == "preview"


def test_everything_wrong_is_told_at_once(values: dict[str, Any]) -> None:
    """The specification bounds how a critic is sampled, and the size of a batch unless the run is rapid."""
    wrong = {
        "missions": {}, "sampler.grid": [{"temperature": -1, "top_p": "x"}], "critic.taste": 1,
        "critic.max_candidates": 7, "critic.temperature": 0.05, "critic.top_p": 1.0, "holdout.fraction": 1.0,
        "selection.tie_break": "dice", "reflection.rapid_mode": "yes",
    }  # fmt: skip
    broken = without_key(values, "reflection.batch_size")
    for name, value in wrong.items():
        broken = with_value(broken, name, value)
    cell = {f"sampler.grid.0.{name}" for name in ("temperature", "top_p", "max_new_tokens")}
    assert set(refused(broken)) == cell | {"reflection.batch_size", "sampler.group_batch_size"} | (
        wrong.keys() - {"sampler.grid"}
    )
    sized = with_value(with_value(values, "sampler.group_batch_size", 33), "reflection.rapid_mode", False)
    assert refused(sized) == ["sampler.group_batch_size"]


def test_missions_have_names_that_folders_can_have_and_no_two_are_alike(values: dict[str, Any]) -> None:
    for name in ("BBU安装方式检查（正装）", "a b", "x.y", "é" * 60):
        assert guide_settings_from(with_value(values, "missions", {name: "f"})).missions
    for name in (" ", ".a", "a/b", "a\\b", "a\nb", "a\u2028b", "é" * 61):
        assert len(refused(with_value(values, "missions", {name: "f"}))) == 1, name
    assert refused(with_value(values, "missions", {"Cabinet": "f", "cabinet": "f"})) == ["missions.cabinet"]
    decomposed = guide_settings_from(with_value(values, "missions", {"e\u0301": "f"}))
    assert list(decomposed.missions) == ["é"]


def test_files_options_and_endpoint_that_do_not_fit_are_told_at_once(
    values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_guidance(tmp_path / "guidance.json", "cabinet")
    check_guide(guide_settings_from(values), GuideOptions())
    # an endpoint of one's own needs a key, the rules an embedded farm, and a target that reflects needs neither
    assert refused(without_key(values, "endpoint")) == ["endpoint"]
    monkeypatch.delenv("MY_KEY", raising=False)
    own = {"model": "m", "api_base": "http://h:1/v1", "api_key_env": "MY_KEY"}
    assert refused(with_value(values, "endpoint", own)) == ["endpoint.api_key_env"]
    assert refused(values, farm="external") == ["endpoint.api_base"]
    alone = with_value(without_key(values, "endpoint"), "critic.enabled", False)
    assert not guide_settings_from(with_value(alone, "reflection.backend", "target")).needs_endpoint
    broken = {
        "missions": {"cabinet": "f", "tower 2": "f"}, "output.root": "/dev/null", "critic.prompt_path": "none.txt",
        "reflection.prompt_path": values["critic"]["prompt_path"], "verifier": "nobody:has_it",
    }  # fmt: skip
    for name, value in broken.items():
        values = with_value(values, name, value)
    assert refused(values, sglang_url="http://h:1") == [
        "--sglang-url", "guidance.path", "output.root", "verifier", "critic.prompt_path", "reflection.prompt_path"
    ]  # fmt: skip


def test_the_shipped_settings_and_the_examples_of_the_docs_can_be_used(tmp_path: Path) -> None:
    assert not read_guide_settings(ROOT / "configs" / "guide_gpu.yaml").needs_endpoint
    text = (ROOT / "docs" / "guide.md").read_text()
    [settings, guidance] = (re.search(f"```{kind}\n(.*?)```", text, re.DOTALL) for kind in ("yaml", "json"))
    assert settings and guidance
    found = guide_settings_from(yaml.safe_load(settings[1]))
    (tmp_path / "guidance.json").write_text(guidance[1])
    assert [*read_guidance(tmp_path / "guidance.json")] == [*found.missions] == ["cabinet"]
