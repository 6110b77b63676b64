"""transformers' file with the embedded model: its answers are those of an argmax over logits plus biases."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from exported_run import DELTAS, asked_prompts, biases_of, rendered, write_run

from tasks.gpu.model_files import model_hashes
from tasks.gpu.processor import ModelCheck
from tasks.gpu.prompt import answer_ends, load_tokenizer
from workers.embedded.models import embedded_model

COMPARED = 10  # answers with those of the plain model


@pytest.fixture(scope="module")
def model() -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(embedded_model(), trust_remote_code=False).eval()


@torch.inference_mode()
def reference(model: Any, prompt: Sequence[int], biases: torch.Tensor, stops: Sequence[int], tokens: int) -> list[int]:
    """The ids of a greedy answer: at each step the highest of the model's own logits plus the biases."""
    ids, cache, answer = torch.tensor([prompt]), None, []
    while len(answer) < tokens:
        out = model(ids, past_key_values=cache, use_cache=True)
        cache = out.past_key_values
        token = int((out.logits[0, -1].float() + biases).argmax())
        answer.append(token)
        if token in stops:
            break
        ids = torch.tensor([[token]])
    return answer


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("count", "tokens"), [(2, 10), pytest.param(100, 24, marks=pytest.mark.long)])
def test_greedy_answers_are_those_of_the_models_logits_plus_the_biases(
    model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, tokens: int
) -> None:
    # Given the exported file on the module path
    file = tmp_path / "processor_transformers.py"
    file.write_text(rendered("transformers", write_run(tmp_path)))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "processor_transformers", raising=False)
    processor = importlib.import_module("processor_transformers").DeltaProcessor()
    stops, biases = sorted(answer_ends(load_tokenizer(str(embedded_model())))), torch.from_numpy(biases_of(DELTAS))
    # When generate() answers with it
    equal = changed = 0
    for number, prompt in enumerate(asked_prompts(count)):
        ids = torch.tensor([prompt])
        asked = {"attention_mask": torch.ones_like(ids), "do_sample": False, "max_new_tokens": tokens}
        asked |= {"eos_token_id": list(stops), "pad_token_id": stops[0]}
        steered = model.generate(ids, logits_processor=[processor], **asked)[0, len(prompt) :].tolist()
        equal += steered == reference(model, prompt, biases, stops, tokens)
        if number < COMPARED:
            changed += steered != reference(model, prompt, torch.zeros_like(biases), stops, tokens)
    print(f"{equal} of {count} answers equal the reference; {changed} of the first {COMPARED} differ from plain ones")
    # Then each is the reference's, and steering changes answers
    assert equal == count and changed > min(count, COMPARED) / 2


def test_a_folder_of_another_model_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check = ModelCheck(name="a model", **model_hashes(str(embedded_model())))
    (tmp_path / "processor_checking.py").write_text(rendered("transformers", write_run(tmp_path / "run", check)))
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("processor_checking")
    # the model itself, also saved again; and what is not on this machine cannot be compared
    copy, other = tmp_path / "copy", tmp_path / "other"
    for folder in (copy, other):
        folder.mkdir()
    (copy / "tokenizer.json").write_text((embedded_model() / "tokenizer.json").read_text())
    config = json.loads((embedded_model() / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, "transformers_version": "6.0", "dtype": "bfloat16"}))
    for same in (embedded_model(), copy, "nobody/no-such-model", ""):
        module.check_model(str(same))
    # another configuration
    (other / "config.json").write_text(json.dumps({**config, "hidden_size": 960}))
    with pytest.raises(ValueError, match=f"{other} is not a model, .* config"):
        module.check_model(str(other))
