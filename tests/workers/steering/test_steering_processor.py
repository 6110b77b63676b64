"""The processor's arithmetic, and the string that names its class.

SGLang itself needs a GPU, so an empty class stands in for the base class.
"""

from __future__ import annotations

import importlib
import json
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from tasks.gpu.target import PROCESSOR
from workers import steering
from workers.sglang import server
from workers.steering.request import CLASS, LABELS_VARIABLE, MODULE, parse_reference

FIRST, SECOND = "ab" * 8, "cd" * 8


@pytest.fixture
def processor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    name = "sglang.srt.sampling.custom_logit_processor"
    for depth in range(1, 5):
        monkeypatch.setitem(sys.modules, ".".join(name.split(".")[:depth]), ModuleType(name))
    monkeypatch.setattr(sys.modules[name], "CustomLogitProcessor", object, raising=False)
    context = ModuleType("sglang.srt.runtime_context")
    context.get_server_args = lambda: SimpleNamespace(disable_overlap_schedule=True)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, context.__name__, context)
    monkeypatch.setenv(LABELS_VARIABLE, str(tmp_path))
    np.save(tmp_path / f"{FIRST}.npy", np.asarray([0, 1, 2, 2, 1], dtype=np.uint8))
    np.save(tmp_path / f"{FIRST}.ends.npy", np.asarray([0, 4, 2, 1, 0], dtype=np.uint8))
    np.save(tmp_path / f"{SECOND}.npy", np.asarray([1, 1, 1, 0, 0], dtype=np.uint16))
    monkeypatch.syspath_prepend(server.make_steering_path(tmp_path / "path"))
    yield getattr(importlib.import_module(MODULE), CLASS)()
    for module in [name for name in sys.modules if name.partition(".")[0] == steering.NAME]:
        del sys.modules[module]


def test_each_row_gets_its_own_deltas_and_columns_beyond_the_vocabulary_none(processor: Any) -> None:
    logits = torch.arange(24, dtype=torch.float32).view(3, 8)
    params = [
        {"clustering": FIRST, "deltas": [10.0, 20.0, 30.0]},
        {"clustering": SECOND, "deltas": [-1.0, 5.0]},
        {"clustering": FIRST, "deltas": [0.0, 0.0, 1.0], "strength": 0.5},
    ]
    expected = logits + torch.tensor(
        [[10, 20, 30, 30, 20, 0, 0, 0], [5, 5, 5, -1, -1, 0, 0, 0], [0, 0, 0.5, 0.5, 0, 0, 0, 0]]
    )
    assert torch.equal(processor(logits.clone(), params), expected)


def test_the_end_of_a_turn_is_raised_where_the_answer_has_just_ended_a_sentence(processor: Any) -> None:
    """Token 1 is ".", 2 ends with a digit, 3 ends a sentence; cluster 0 is token 0."""
    answers = {(): 0, (3,): 1, (3, 4): 0, (4, 1): 1, (2, 1): 0, (1,): 1}
    params = [
        {
            "clustering": FIRST,
            "deltas": [10.0, 20.0, 30.0],
            "end": "sentence",
            "__req__": SimpleNamespace(output_ids=ids),
        }
        for ids in answers
    ]
    steered = processor(torch.zeros(len(params), 8), params)
    assert [row[0] / 10 for row in steered.tolist()] == list(answers.values())
    assert steered[:, 1:].tolist() == [[20, 30, 30, 20, 0, 0, 0]] * len(params)


def test_an_error_is_not_swallowed(processor: Any) -> None:
    with pytest.raises(ValueError, match="no labels"):
        processor(torch.zeros(1, 8), [{"clustering": "ef" * 8, "deltas": [0.0]}])


def test_the_string_unpickles_to_the_class(processor: Any) -> None:
    """SGLang un-pickles the string; the embedded server never does."""
    assert pickle.loads(bytes.fromhex(json.loads(PROCESSOR)["callable"])) is type(processor)


def test_the_class_is_read_from_the_string_without_unpickling() -> None:
    assert parse_reference(PROCESSOR) == (MODULE, CLASS)


def test_a_call_hidden_behind_a_reference_is_refused() -> None:
    evil = b"\x80\x04cos\nsystem\n(S'true'\ntR."
    with pytest.raises(ValueError, match="by reference"):
        parse_reference(json.dumps({"callable": evil.hex()}))
