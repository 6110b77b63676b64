"""Prompts that are longer than the target's context are found before it is asked anything."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from tasks.gpu.jobs import context_length, find_too_long
from tasks.records import Example, Sampling, Target

TARGET = Target(
    model="m", engine="sglang", lifecycle="resident", url="", command="", args="", device="cpu", dtype="auto",
    ready_timeout_s=10, request_timeout_s=10, concurrency=1, system_prompt="", prompt_template="{context}{query}",
    sampling=Sampling(64, 0.0, 1.0, 7),
)  # fmt: skip


def example(name: str, context: str, question: str = "why?") -> Example:
    return Example(name, context, question, "because")


def words(one: Example, context: str) -> int:
    return len(context.split()) + len(one.question.split())


def model(folder: Path, **config: Any) -> str:
    values = {"model_type": "llama", "max_position_embeddings": 4096, **config}
    (folder / "config.json").write_text(json.dumps(values))
    return str(folder)


def test_all_that_are_too_long_are_listed_with_their_lengths() -> None:
    examples = [
        example("short", "a b c"),
        example("exact", "a " * 9),
        example("long", "a " * 50),
        example("q", "", "a " * 11),
    ]
    found = find_too_long(examples, 10, words, truncate=False)
    assert found == {"limit": 10, "lengths": {"long": 51, "q": 11}, "contexts": {}}


def test_a_context_is_cut_to_the_longest_beginning_that_fits() -> None:
    examples = [example("long", " ".join(f"word{i}" for i in range(50))), example("q", "", "a " * 11)]
    found = find_too_long(examples, 10, words, truncate=True)
    assert set(found["contexts"]) == {"long"}, "a question that is too long by itself has no such context"
    assert found["contexts"]["long"].split()[:9] == [f"word{i}" for i in range(9)]
    assert words(examples[0], found["contexts"]["long"]) == 10


@pytest.mark.parametrize("argument", ["--context-length 1024", "--tp 2 --context-length=1024"])
def test_the_servers_argument_comes_before_the_configuration(tmp_path: Path, argument: str) -> None:
    target = dataclasses.replace(TARGET, args=argument)
    assert context_length(target, model(tmp_path)) == 1024
