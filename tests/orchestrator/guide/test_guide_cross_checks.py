"""Values of a guided run that do not go together: each is named by its key, with the reason."""

from __future__ import annotations

from typing import Any

import pytest
from dotted_values import with_value, without_key
from guide_values import setting_problems

from orchestrator.guide.settings import guide_settings_from


@pytest.mark.parametrize("size", [16, 33, 128])
def test_a_batch_has_32_or_64_tickets_unless_the_run_is_a_rapid_one(values: dict[str, Any], size: int) -> None:
    values = with_value(values, "sampler.group_batch_size", size)
    assert guide_settings_from(values).sampler.group_batch_size == size
    refused = setting_problems(with_value(values, "reflection.rapid_mode", False))
    assert refused == [f"sampler.group_batch_size: {size} is not 32 or 64, and reflection.rapid_mode is not true"]


def test_missions_have_names_that_folders_can_have(values: dict[str, Any]) -> None:
    names = {"挡风板安装检查": "f", "a/b": "f", ".hidden": "f", "Cabinet": "f", "cabinet": "f", "run.json": "f"}
    assert setting_problems(with_value(values, "missions", names)) == [
        "missions.'a/b': is no name of a folder: it has a separator of folders",
        "missions.'.hidden': is no name of a folder: it begins with a point",
        "missions.cabinet: has the same folder as 'Cabinet'",
        "missions.'run.json': is no name of a folder: it ends as a file of the run does (.json, .jsonl, .yaml, .log, "
        ".html, .part)",
    ]


def test_the_endpoint_is_needed_where_it_is_asked(values: dict[str, Any]) -> None:
    without = without_key(values, "endpoint")
    assert setting_problems(without) == ["endpoint: is missing, and is asked by critic.backend and reflection.backend"]
    without = with_value(with_value(without, "critic.enabled", False), "reflection.backend", "target")
    assert not guide_settings_from(without).needs_endpoint
    assert setting_problems(with_value(without, "endpoint", {"model": "m"})) == [
        "endpoint.api_base: is missing", "endpoint.api_key_env: is missing"
    ]  # fmt: skip


def test_the_embedded_model_computes_on_the_cpu(values: dict[str, Any]) -> None:
    model = {"model_name_or_path": "embedded", "torch_dtype": "float16", "device_map": "cuda"}
    assert setting_problems(with_value(values, "model", model)) == [
        "model.torch_dtype: 'float16' is not of the embedded model: auto, bfloat16 or float32",
        "model.device_map: 'cuda' is not of the embedded model, which computes on the CPU",
    ]
    other = guide_settings_from(with_value(values, "model", {**model, "model_name_or_path": "a/model"}))
    assert other.model.torch_dtype == "float16"
