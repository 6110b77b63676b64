"""The generated processor: loads by itself, adds exactly the deltas, and no description can make it do anything else.

SGLang cannot be installed where these tests run, so modules with its names stand in for it.
"""

from __future__ import annotations

import ast
import json
import pickle
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from tasks.gpu.model_files import model_hashes
from tasks.gpu.processor import SGLANG, ModelCheck, render_file

HASH = "5485e325ff4026217d30e6516416a3f9"
DELTAS = {"0": 1.5, "1": -0.0078125, "2": 0.1, "3": -2.75e-3}
PLAIN = [{"id": i, "description": f"Tokens of kind {i}"} for i in range(4)]
HOSTILE = [
    'ends""" + __import__("os").abort() + """',
    "one line\nimport os; os.abort()",
    "form feed\x0cpage\x0bvertical\x00nul\x1a \x85 \u2028import os\u2029os.abort()",
    "'; DELTAS = {}; '''\\",
    "}\nDELTAS.clear()\n{ $deltas ${labels} %s {0} \\N{BULLET} \\x0a import os",
    "right to left \u202e)(troba.so \u2066 and a lone \ud800 surrogate",
]
CALLABLE = b"\x80\x04cprocessor_best\nDeltaProcessor\n."
"""The pickle that a request carries: the names of the module and of its class."""
Steer = Callable[..., np.ndarray]


class StandIn(ABC):
    """SGLang's `CustomLogitProcessor`."""

    @abstractmethod
    def __call__(self, logits: Any, custom_param_list: Any = None) -> Any: ...


@pytest.fixture
def steered(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Steer:
    """Logits as a file steers them in a server of a model; `answer` of a request's parameters is what it has so far."""

    def provide(name: str, **values: Any) -> None:
        module: Any = ModuleType(name)
        vars(module).update(values)
        monkeypatch.setitem(sys.modules, name, module)

    def steer(text: str, logits: np.ndarray, params: Any = None, model: str = "", disabled: bool = True) -> np.ndarray:
        args = SimpleNamespace(model_path=model, disable_overlap_schedule=disabled)
        provide("sglang.srt.sampling.custom_logit_processor", CustomLogitProcessor=StandIn)
        provide("sglang.srt.runtime_context", get_server_args=lambda: args)
        folder = tmp_path_factory.mktemp("server")
        (folder / "processor_best.py").write_text(text, encoding="utf-8")
        monkeypatch.syspath_prepend(folder)
        monkeypatch.delitem(sys.modules, "processor_best", raising=False)
        made = pickle.loads(CALLABLE)()
        given = torch.from_numpy(logits.copy())
        for one in params or ():
            if isinstance(one, dict) and "answer" in one:
                one["__req__"] = SimpleNamespace(output_ids=one["answer"])
        answer = made(given, params)
        assert torch.equal(answer, made(given, params)) and np.array_equal(given.numpy(), logits)
        return answer.numpy()

    return steer


def labels_of(size: int, clusters: int) -> np.ndarray:
    labels = np.random.default_rng(5).integers(0, clusters, size).astype(np.uint8)
    labels[:clusters] = np.arange(clusters)
    return labels


def test_it_adds_each_tokens_delta_and_nothing_to_the_padding(steered: Steer) -> None:
    # given a vocabulary of 49,152 tokens in four clusters, and logits 128 wider
    labels = labels_of(49152, 4)
    logits = np.random.default_rng(1).normal(0, 8, (3, 49152 + 128)).astype(np.float32)
    # when the file, in which the deltas can be read, steers them
    text = render_file(SGLANG, DELTAS, labels, HASH, PLAIN)
    assert '    # Tokens of kind 3\n    "3": -0.00275,\n' in text and f'CLUSTERING = "{HASH}"' in text
    got = steered(text, logits)
    # then every logit is exactly what plain arithmetic gives
    logits[:, :49152] += np.array([*DELTAS.values()], dtype=np.float32)[labels]
    assert np.array_equal(got, logits)


def test_each_row_is_scaled_by_the_strength_of_its_request(steered: Steer) -> None:
    strengths = [0, 0.5, 1, -3, 7, 10**400, None, "0.5", True, [0.5], float("nan")]
    expected = [0, 0.5, 1, 0, 1, 1, 1, 1, 1, 1, 1]
    params = [*({"strength": strength} for strength in strengths), {}, None, "x"]
    text = render_file(SGLANG, DELTAS, labels_of(50, 4), HASH, PLAIN)
    got = steered(text, np.zeros((len(params), 64), np.float32), params)
    assert [row[0] / 1.5 for row in got.tolist()] == [*expected, 1, 1, 1]
    assert np.array_equal(got, np.outer(np.array([*expected, 1, 1, 1], np.float32), got[2]))


def test_the_end_of_a_turn_is_raised_where_the_answer_has_just_ended_a_sentence(steered: Steer) -> None:
    # given tokens 1 ".", 2 a digit, and 3 that ends a sentence; cluster 0 is token 0
    ends = np.zeros(50, np.uint8)
    ends[1:4] = (4, 2, 1)
    labels = np.asarray([0, 1] * 25, np.uint8)
    labels[2:] = 1
    text = render_file(SGLANG, {"0": 8.0, "1": 0.5}, labels, HASH, [], ends=ends)
    answers = {(): 0, (3,): 1, (3, 9): 0, (9, 1): 1, (2, 1): 0, (1,): 1, (3, 63): 0}
    params = [*({"answer": answer} for answer in answers), {}, None]
    got = steered(text, np.zeros((len(params), 64), np.float32), params)
    # then the end has its delta after a sentence, and not where the server does not show the answer
    assert (got[:, 0] / 8).tolist() == [*answers.values(), 0, 0]
    assert np.array_equal(got[:, 1:], np.tile(got[:1, 1:], (len(params), 1))) and got[0, 49] == 0.5
    # and a server that shows each answer without its last token ends with an error
    with pytest.raises(RuntimeError, match="--disable-overlap-schedule"):
        steered(text, np.zeros((1, 64), np.float32), disabled=False)


def test_a_server_of_another_model_ends_with_an_error(steered: Steer, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="50 labels do not fit 49 logits"):
        text = render_file(SGLANG, DELTAS, labels_of(50, 4), HASH, PLAIN)
        steered(text, np.zeros((1, 49), np.float32))
    # given a file for a model, and servers that were started with it, with another one, and with one that is not here
    for name, size in (("ours", 576), ("other", 960)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps({"hidden_size": size}))
    ours, other = str(tmp_path / "ours"), str(tmp_path / "other")
    text = render_file(SGLANG, DELTAS, labels_of(50, 4), HASH, PLAIN, ModelCheck("ours", **model_hashes(ours)))
    logits = np.zeros((1, 50), np.float32)
    assert steered(text, logits, model=ours).any()
    assert steered(text, logits, model="nobody/no-such-model").any()
    with pytest.raises(ValueError, match=f"{other} is not ours, .* config"):
        steered(text, logits, model=other)


def test_hostile_descriptions_stay_comments(steered: Steer) -> None:
    # given clusters whose descriptions try to end the comment, the file, or the line
    labels = labels_of(100, len(HOSTILE))
    deltas = {str(i): 0.25 * i for i in range(len(HOSTILE))}
    hostile = [{"id": i, "description": text} for i, text in enumerate(HOSTILE)]
    text = render_file(SGLANG, deltas, labels, HASH, hostile)
    # then the program is the same as without any descriptions
    assert ast.dump(ast.parse(text)) == ast.dump(ast.parse(render_file(SGLANG, deltas, labels, HASH, [])))
    assert all(len(line) <= 120 for line in text.splitlines())
    # and runs as it should
    got = steered(text, np.zeros((1, 100), np.float32))
    assert np.array_equal(got[0], labels * np.float32(0.25))


def test_it_says_how_to_use_it_where_sglang_is_not_installed(tmp_path: Path) -> None:
    path = tmp_path / "processor_best.py"
    path.write_text(render_file(SGLANG, DELTAS, labels_of(9, 4), HASH, PLAIN))
    # with Python alone (isolated mode: no module path but the standard one)
    said, string = (
        subprocess.check_output([sys.executable, "-I", path, *option], text=True) for option in ((), ("--string",))
    )
    assert "--enable-custom-logit-processor" in said and str(tmp_path) in said
    # its string names its module and its class and carries no code
    assert bytes.fromhex(json.loads(string)["callable"]) == CALLABLE
