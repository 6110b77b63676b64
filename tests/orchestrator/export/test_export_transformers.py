"""transformers' file with the embedded model: its answers are those of an argmax over logits plus biases."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from exported_run import CHECK, DELTAS, HASH, asked_prompts, biases_of, labels_of, rendered, write_run
from small_model import make_small_model

from orchestrator.export.transformers import TRANSFORMERS
from tasks.gpu.processor import render_processor
from tasks.gpu.processor_check import model_hashes
from tasks.gpu.processor_template import ModelCheck
from tasks.gpu.prompt import load_tokenizer, stop_ids
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
    stops, biases = stop_ids(load_tokenizer(str(embedded_model()))), torch.from_numpy(biases_of(DELTAS))
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


def verify(file: Path, where: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1"}
    command = [sys.executable, str(file), "--verify", str(where)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


@pytest.mark.long
def test_the_file_accepts_a_folder_with_its_model(model: Any, tmp_path: Path) -> None:
    # Given a file that holds answers of the model, as steered
    folder = embedded_model()
    tokenizer = load_tokenizer(str(folder))
    stops, biases = list(stop_ids(tokenizer)), torch.from_numpy(biases_of(DELTAS))
    asked = asked_prompts(20)
    texts = [tokenizer.decode(reference(model, p, biases, stops, 8), skip_special_tokens=True) for p in asked]
    answers = [{"prompt": p, "text": t, "tokens": 8} for p, t in zip(asked, texts, strict=True)]
    check = ModelCheck(**{**CHECK, **model_hashes(str(folder)), "stops": stops, "answers": answers})
    file = tmp_path / "processor_transformers.py"
    file.write_text(rendered("transformers", write_run(tmp_path / "run", check)))
    # When it is asked whether a folder has it
    accepted = verify(file, folder)
    # Then it gives the answers again
    said = "its configuration and tokenizer are the same, and 20 of 20 answers are the same"
    assert accepted.stdout == f"accepted: {folder} has a model: {said}\n", accepted.stderr
    assert accepted.returncode == 0


def test_the_check_asks_for_the_least_number_of_tokens(tmp_path: Path) -> None:
    # Given a model whose every answer ends at once as it is steered, but for the tokens that it has to have
    folder = make_small_model(tmp_path / "model")
    from transformers import AutoModelForCausalLM

    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), load_tokenizer(str(folder))
    withheld = torch.zeros(len(labels_of()))
    withheld[2] = -torch.inf
    asked = asked_prompts(4)
    texts = [tokenizer.decode(reference(model, prompt, withheld, [2], 3)) for prompt in asked]
    answers = [{"prompt": prompt, "text": text, "tokens": 4} for prompt, text in zip(asked, texts, strict=True)]
    deltas = {"0": 900.0, **dict.fromkeys("1234", 0.0)}
    for least, status, said in ((3, 0, "4 of 4 answers"), (0, 1, "0 of 4 answers")):
        hashes = model_hashes(str(folder))
        check = ModelCheck(name="small", **hashes, stops=[2], answers=answers, min_new_tokens=least)
        file = tmp_path / f"least_{least}.py"
        file.write_text(render_processor(deltas, labels_of(), HASH, [], check, TRANSFORMERS))
        # When the file is asked, then it is accepted with them, and without them the answers are empty
        found = verify(file, folder)
        assert found.returncode == status and said in found.stdout + found.stderr, found.stderr


def test_the_file_refuses_a_folder_of_another_configuration_before_it_is_loaded(tmp_path: Path) -> None:
    check = ModelCheck(**{**CHECK, **model_hashes(str(embedded_model()))})
    file, other = tmp_path / "processor_transformers.py", tmp_path / "other"
    file.write_text(rendered("transformers", write_run(tmp_path / "run", check)))
    other.mkdir()
    (other / "config.json").write_text((embedded_model() / "config.json").read_text().replace("576", "960"))
    refused = verify(file, other)
    assert refused.returncode == 1 and refused.stderr == (
        f"refused: {other} has not a model: its config is not the same\n"
    )
    assert verify(file, tmp_path / "nowhere").returncode == 2
