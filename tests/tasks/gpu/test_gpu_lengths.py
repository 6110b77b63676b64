"""Prompts that are longer than the target's context are found before it is asked anything."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from tasks.gpu.jobs import context_length
from tasks.records import Sampling, Target

TARGET = Target(
    model="m", engine="sglang", lifecycle="resident", url="", command="", args="", device="cpu", dtype="auto",
    ready_timeout_s=10, request_timeout_s=10, concurrency=1, system_prompt="", prompt_template="{context}{query}",
    sampling=Sampling(64, 0.0, 1.0, 7),
)  # fmt: skip


def model(folder: Path, **config: Any) -> str:
    values = {"model_type": "llama", "max_position_embeddings": 4096, **config}
    (folder / "config.json").write_text(json.dumps(values))
    return str(folder)


@pytest.mark.parametrize("argument", ["--context-length 1024", "--tp 2 --context-length=1024"])
def test_the_servers_argument_comes_before_the_configuration(tmp_path: Path, argument: str) -> None:
    target = dataclasses.replace(TARGET, args=argument)
    assert context_length(target, model(tmp_path)) == 1024
