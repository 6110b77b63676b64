"""Values of the settings of `guide` that do not go together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from orchestrator.guide.names import mission_name_problems
from orchestrator.settings.documents import shown_key
from orchestrator.settings.value_checks import EMBEDDED

BATCHES = (32, 64)
"""The sizes of a batch, unless `reflection.rapid_mode` is true."""


Findings = Iterator[tuple[str, str]]


def _check_missions(values: Mapping[str, Any]) -> Findings:
    names = [name.removeprefix("missions.") for name in values if name.startswith("missions.")]
    for name, reason in mission_name_problems(names):
        yield f"missions.{shown_key(name)}", reason


def _check_batch(values: Mapping[str, Any]) -> Findings:
    size = values.get("sampler.group_batch_size")
    if size is not None and size not in BATCHES and values.get("reflection.rapid_mode") is not True:
        yield "sampler.group_batch_size", f"{size} is not 32 or 64, and reflection.rapid_mode is not true"


def _check_endpoint(values: Mapping[str, Any]) -> Findings:
    """The section `endpoint` is there where one is asked."""
    asked = [
        name
        for name, enabled in (("critic", values.get("critic.enabled", True)), ("reflection", True))
        if enabled and values.get(f"{name}.backend") == "endpoint"
    ]
    is_given = any(name.startswith("endpoint.") for name in values) or values.get("endpoint") is not None
    if asked and not is_given:
        yield "endpoint", f"is missing, and is asked by {' and '.join(f'{name}.backend' for name in asked)}"


def _check_model(values: Mapping[str, Any]) -> Findings:
    if values.get("model.model_name_or_path") == EMBEDDED:
        if values.get("model.torch_dtype") == "float16":
            yield "model.torch_dtype", "'float16' is not of the embedded model: auto, bfloat16 or float32"
        if values.get("model.device_map") == "cuda":
            yield "model.device_map", "'cuda' is not of the embedded model, which computes on the CPU"


CROSS_CHECKS = (_check_missions, _check_batch, _check_endpoint, _check_model)
