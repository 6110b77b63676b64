"""What is refused before anything is started: all that is wrong in the YAML file, its files and options, at once."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from dotted_values import with_value, without_key
from guide_values import ROOT, guide_values, setting_problems

from orchestrator.guide.guidance import read_guidance
from orchestrator.guide.inputs import check_guide
from orchestrator.guide.settings import GuideOptions, guide_settings_from
from orchestrator.settings import SettingsError
from tasks.guide.prompts import CRITIC_PLACES, REFLECTION_PLACES

# The keys that a file must have, written down a second time, so that none can be dropped by mistake.
MANDATORY = """
stage_a_paths missions model.model_name_or_path guidance.path output.root critic.prompt_path
reflection.prompt_path reflection.batch_size reflection.apply_if_delta reflection.allow_uncertain
reflection.max_operations reflection.change_cap_per_epoch reflection.eligibility_policy reflection.all_wrong_strategy
""".split()  # noqa: SIM905  # readable


@pytest.fixture
def values(tmp_path: Path) -> dict[str, Any]:
    """Every setting of a small `guide`, with its files in the folder of the test."""
    return guide_values(tmp_path)


def named(values: dict[str, Any]) -> list[str]:
    """The keys that are refused."""
    return [problem.partition(": ")[0] for problem in setting_problems(values)]


def test_every_key_that_is_missing_or_null_is_named(values: dict[str, Any]) -> None:
    for name in MANDATORY:
        assert named(without_key(values, name)) == [name] == named(with_value(values, name, None))


def test_a_file_with_these_keys_alone_is_whole(values: dict[str, Any]) -> None:
    short: dict[str, Any] = {}
    for name in MANDATORY:
        section, _, key = name.rpartition(".")
        (short.setdefault(section, {}) if section else short)[key] = (values[section] if section else values)[key]
    settings = guide_settings_from(short)
    assert not settings.needs_endpoint and settings.gate == "preview"
    assert [cell.temperature for cell in settings.sampler.grid] == [0.0, 0.5]


def test_everything_wrong_is_told_at_once(values: dict[str, Any]) -> None:
    broken = with_value(without_key(values, "reflection.batch_size"), "critic.max_candidates", 7)
    broken = with_value(with_value(broken, "critic.taste", 1), "sampler.grid", [{"temperature": -1, "top_p": "x"}])
    broken = with_value(with_value(broken, "holdout.fraction", 1.0), "missions", {})
    broken = with_value(with_value(broken, "selection.tie_break", "dice"), "reflection.rapid_mode", "yes")
    assert set(named(broken)) == {
        "missions", "sampler.group_batch_size", "sampler.grid.0.temperature", "sampler.grid.0.top_p",
        "sampler.grid.0.max_new_tokens", "critic.max_candidates", "critic.taste", "reflection.batch_size",
        "reflection.rapid_mode", "holdout.fraction", "selection.tie_break",
    }  # fmt: skip


def test_a_critic_is_sampled_and_a_batch_is_of_a_size_as_the_specification_wants(values: dict[str, Any]) -> None:
    for key, wrong in (("temperature", 0.05), ("temperature", 0.4), ("top_p", 0.8), ("top_p", 1.0)):
        assert named(with_value(values, f"critic.{key}", wrong)) == [f"critic.{key}"]
    for size, is_refused in ((16, True), (32, False), (33, True), (64, False)):
        sized = with_value(values, "sampler.group_batch_size", size)  # of a rapid run
        assert guide_settings_from(sized).sampler.group_batch_size == size
        if is_refused:
            assert named(with_value(sized, "reflection.rapid_mode", False)) == ["sampler.group_batch_size"]


def test_missions_have_names_that_folders_can_have_and_no_two_are_alike(values: dict[str, Any]) -> None:
    good = ["BBU安装方式检查（正装）", "a b", "x.y", "é" * 60]
    for name in good:
        assert guide_settings_from(with_value(values, "missions", {name: "f"})).missions
    for name in (" ", ".a", "a/b", "a\\b", "a\nb", "a\u2028b", "é" * 61):
        assert len(setting_problems(with_value(values, "missions", {name: "f"}))) == 1, name
    assert named(with_value(values, "missions", {"Cabinet": "f", "cabinet": "f"})) == ["missions.cabinet"]
    decomposed = guide_settings_from(with_value(values, "missions", {"e\u0301": "f"}))
    assert list(decomposed.missions) == ["é"]


def test_the_endpoint_is_needed_where_it_is_asked(values: dict[str, Any]) -> None:
    without = without_key(values, "endpoint")
    assert named(without) == ["endpoint"]
    without = with_value(with_value(without, "critic.enabled", False), "reflection.backend", "target")
    assert not guide_settings_from(without).needs_endpoint
    assert named(with_value(without, "endpoint", {"model": "m"})) == ["endpoint.api_base", "endpoint.api_key_env"]


def test_the_examples_of_the_docs_can_be_used(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "guide.md").read_text()
    [settings, guidance] = (re.search(f"```{kind}\n(.*?)```", text, re.DOTALL) for kind in ("yaml", "json"))
    assert settings and guidance
    found = guide_settings_from(yaml.safe_load(settings[1]))
    (tmp_path / "guidance.json").write_text(guidance[1])
    assert [*read_guidance(tmp_path / "guidance.json")] == [*found.missions] == ["cabinet"]
    for name in (found.critic.prompt_path, found.reflection.prompt_path):
        assert (ROOT / name).exists()
    assert {*re.findall(r"\{(\w+)\}", text)} >= {*CRITIC_PLACES, *REFLECTION_PLACES}


def checked(values: dict[str, Any], **options: Any) -> list[str]:
    """The options and keys that are refused at a start, beyond the file itself."""
    with pytest.raises(SettingsError) as refused:
        check_guide(guide_settings_from(values), GuideOptions(**options))
    return [problem.partition(": ")[0] for problem in refused.value.problems]


def test_files_options_and_endpoint_that_do_not_fit_are_told_at_once(
    values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = {"step": 0, "updated_at": "", "experiences": {"G0": "look at every image"}}
    (tmp_path / "guidance.json").write_text(json.dumps({"cabinet": entry}))
    check_guide(guide_settings_from(values), GuideOptions())
    # an endpoint of one's own needs a key, and the rules an embedded farm
    monkeypatch.delenv("MY_KEY", raising=False)
    own = {"model": "m", "api_base": "http://h:1/v1", "api_key_env": "MY_KEY"}
    assert checked(with_value(values, "endpoint", own)) == ["endpoint.api_key_env"]
    assert checked(values, farm="external") == ["endpoint.api_base"]
    broken = {
        "missions": {"cabinet": "f", "tower 2": "f"}, "output.root": "/dev/null", "critic.prompt_path": "none.txt",
        "reflection.prompt_path": "/dev/zero", "verifier": "nobody:has_it",
    }  # fmt: skip
    for name, value in broken.items():
        values = with_value(values, name, value)
    assert checked(values, sglang_url="http://h:1") == [
        "--sglang-url", "guidance.path", "output.root", "verifier", "critic.prompt_path", "reflection.prompt_path"
    ]  # fmt: skip
