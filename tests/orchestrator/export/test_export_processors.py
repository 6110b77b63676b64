"""The files for transformers and llama.cpp: the biases in each of their forms, and answers of transformers itself."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from exported_run import (
    DELTAS,
    DIGIT,
    ENDS,
    NODE,
    OTHER,
    POINT,
    STOP,
    WORD,
    biases_of,
    rendered,
    write_run,
)
from small_model import make_small_model

from tasks.gpu.model_files import model_hashes
from tasks.gpu.processor import ModelCheck
from tasks.gpu.prompt import answer_ends, load_tokenizer, render
from tasks.questions import load_examples
from workers.embedded.models import embedded_model


def exported(monkeypatch: pytest.MonkeyPatch, engine: str, run: Path, node: str = "") -> Any:
    """The module that is the file of a run for an engine."""
    path = run / f"processor_{engine.replace('-', '_')}.py"
    path.write_text(rendered(engine, run, node))
    monkeypatch.syspath_prepend(str(run))
    monkeypatch.delitem(sys.modules, path.stem, raising=False)
    return importlib.import_module(path.stem)


@torch.inference_mode()
def reference(model: Any, prompt: Sequence[int], biases: torch.Tensor, stops: Sequence[int], tokens: int) -> list[int]:
    """The ids of a greedy answer: at each step the highest of the model's own logits plus the biases."""
    ids, answer = list(prompt), list[int]()
    while len(answer) < tokens and (not answer or answer[-1] not in stops):
        answer.append(int((model(torch.tensor([ids])).logits[0, -1].float() + biases).argmax()))
        ids.append(answer[-1])
    return answer


def test_greedy_answers_of_transformers_are_those_of_the_models_logits_plus_the_biases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import AutoModelForCausalLM

    # Given a model of few weights with the embedded model's vocabulary
    model = AutoModelForCausalLM.from_pretrained(make_small_model(tmp_path / "model")).eval()
    processor = exported(monkeypatch, "transformers", write_run(tmp_path / "run")).DeltaProcessor()
    tokenizer = load_tokenizer(str(embedded_model()))
    stops, biases, changed = sorted(answer_ends(tokenizer)), torch.from_numpy(biases_of(DELTAS)), 0
    for example in load_examples(Path("configs/data/sample.jsonl"))[:8]:
        prompt = render(tokenizer, "Answer in one sentence.", "{context}{query}", "", example.question)
        ids = torch.tensor([prompt])
        # When generate() answers with the file's processor
        asked = {"attention_mask": torch.ones_like(ids), "do_sample": False, "max_new_tokens": 8}
        asked |= {"eos_token_id": stops, "pad_token_id": stops[0]}
        steered = model.generate(ids, logits_processor=[processor], **asked)[0, len(prompt) :].tolist()
        # Then its answer is the reference's, and most are not those of the plain model
        assert steered == reference(model, prompt, biases, stops, 8)
        changed += steered != reference(model, prompt, torch.zeros_like(biases), stops, 8)
    assert changed > 4


def test_a_folder_of_another_model_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check = ModelCheck(name="a model", **model_hashes(str(embedded_model())))
    module = exported(monkeypatch, "transformers", write_run(tmp_path / "run", check))
    # the model itself, also saved again; and what is not on this machine cannot be compared
    copy, other = tmp_path / "copy", tmp_path / "other"
    config = json.loads((embedded_model() / "config.json").read_text())
    for folder, changed in (
        (copy, {"transformers_version": "6.0", "dtype": "bfloat16"}),
        (other, {"hidden_size": 960}),
    ):
        folder.mkdir()
        (folder / "tokenizer.json").write_text((embedded_model() / "tokenizer.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, **changed}))
    for same in (embedded_model(), copy, "nobody/no-such-model"):
        module.check_model(str(same))
    # another configuration
    with pytest.raises(ValueError, match=f"{other} is not a model, .* config"):
        module.check_model(str(other))


def test_each_token_has_its_delta_in_llama_cpp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, wanted = exported(monkeypatch, "llama-cpp", write_run(tmp_path), NODE), biases_of(OTHER)
    scores = np.random.default_rng(1).normal(0, 8, 49152 + 64).astype(np.float32)
    before, expected = scores.copy(), scores.copy()
    expected[:49152] += wanted
    processor = module.DeltaProcessor()
    assert np.array_equal(processor(np.array([1, 2]), scores), expected) and np.array_equal(scores, before)
    with pytest.raises(ValueError, match="another model"):
        processor(np.array([1]), scores[:49151])
    # and the list for a server, printed where nothing but Python is installed, is the same but for a constant
    command = [sys.executable, "-I", "-S", str(module.__file__), "--json"]
    given = dict(json.loads(subprocess.run(command, capture_output=True, check=True).stdout)["logit_bias"])
    biases = np.zeros_like(wanted)
    biases[list(given)] = list(given.values())
    assert np.allclose(biases - biases[2], wanted - wanted[2], atol=1e-6)
    assert 0 < len(given) < len(wanted) * 0.6  # the half of the tokens that are in the largest cluster are left out


def test_llama_cpp_raises_the_end_of_a_turn_where_the_answer_has_just_ended_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = exported(monkeypatch, "llama-cpp", write_run(tmp_path, ends=ENDS), NODE)
    processor, scores = module.DeltaProcessor(), np.zeros(49152, np.float32)
    # of an answer whose prompt ends a sentence, which does not count, nor does a "." behind a digit
    answer = (STOP, WORD, DIGIT, POINT, POINT)
    raised = []
    for length in range(len(answer) + 1):
        added = processor(np.array([7, STOP, *answer[:length]]), scores)
        assert np.array_equal(np.delete(added, 2), np.delete(biases_of(OTHER), 2))
        raised.append(float(added[2]))
    assert raised == [0, OTHER["0"], 0, 0, 0, OTHER["0"]]
    # and of the next one
    assert processor(np.array([STOP, STOP]), scores)[2] == 0
    # and a list of biases is refused, in one line
    done = subprocess.run([sys.executable, str(module.__file__), "--json"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), done.stderr
