"""From settings to the target, the endpoint and the farm of a run."""

from __future__ import annotations

from pathlib import Path

import pytest
from dotted_values import with_value, without_key
from guide_values import guide_values

from orchestrator.guide.build import guide_announcement, guide_endpoint, guide_farm_spec, guide_target
from orchestrator.guide.options import GuideOptions
from orchestrator.guide.settings import guide_settings_from


def test_the_embedded_model_takes_its_dtype_and_answers_on_the_farm(tmp_path: Path) -> None:
    settings = guide_settings_from(with_value(guide_values(tmp_path), "model.torch_dtype", "float32"))
    target = guide_target(settings, GuideOptions(rollout_jobs=5))
    assert (target.engine, target.dtype, target.device, target.url, target.args) == (
        "embedded",
        "float32",
        "cpu",
        "",
        "",
    )
    spec = guide_farm_spec(settings, GuideOptions(rollout_jobs=5, endpoint_jobs=3))
    assert (spec.gpu_slots, spec.openai_threads, spec.embedded_endpoint, spec.offline) == (5, 3, True, True)


@pytest.mark.parametrize(
    ("dtype", "device", "args"),
    [(None, None, "--tp 2"), ("auto", "auto", "--tp 2"), ("bfloat16", "cuda", "--dtype bfloat16 --device cuda --tp 2")],
)
def test_dtype_and_device_of_a_served_model_are_options_of_its_server(
    tmp_path: Path, dtype: str | None, device: str | None, args: str
) -> None:
    model = {"model_name_or_path": "Qwen/Qwen2.5-Coder-1.5B-Instruct", "torch_dtype": dtype, "device_map": device}
    settings = guide_settings_from(with_value(guide_values(tmp_path), "model", model))
    target = guide_target(settings, GuideOptions(sglang_args="--tp 2"))
    assert (target.engine, target.args) == ("sglang", args)


def test_rules_are_free_and_a_model_has_the_prices_that_are_given(tmp_path: Path) -> None:
    values = guide_values(tmp_path)
    rules = guide_endpoint(guide_settings_from(values), GuideOptions())
    assert rules is not None
    assert (rules.base_url, rules.price_prompt, rules.price_completion) == ("", 0.0, 0.0)
    own = with_value(values, "endpoint", {"model": "m", "api_base": "http://h:1/v1", "api_key_env": "MY_KEY"})
    priced = guide_endpoint(guide_settings_from(own), GuideOptions(price_prompt=2.5))
    assert priced is not None
    assert (priced.base_url, priced.api_key_env, priced.price_prompt, priced.price_cached) == (
        "http://h:1/v1", "MY_KEY", 2.5, None
    )  # fmt: skip
    assert not guide_farm_spec(guide_settings_from(own), GuideOptions()).embedded_endpoint


def test_the_first_line_says_who_judges_criticises_and_reflects(tmp_path: Path) -> None:
    values = guide_values(tmp_path)
    line = guide_announcement(guide_settings_from(values), GuideOptions())
    assert line.startswith("target: embedded; critic: rules of the embedded endpoint (no language model)")
    assert line.endswith("cost: free; the server enforces the three lines")
    target = with_value(without_key(values, "endpoint"), "reflection.backend", "target")
    target = with_value(with_value(target, "critic.enabled", False), "sampler.constrain", "none")
    assert guide_announcement(guide_settings_from(target), GuideOptions()) == (
        "target: embedded; critic: none; reflector: the target; cost: free"
    )
