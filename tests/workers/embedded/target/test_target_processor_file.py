"""A run's processor on the embedded server: `--verify` accepts the model that it was made for, and no other."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import httpx
import numpy as np
import pytest
import torch
from embedded_server import CLUSTERING, CLUSTERS, HEADERS, KEY, TargetServer, serving
from small_model import make_small_model
from transformers import AutoModelForCausalLM, AutoTokenizer

from orchestrator.export.steering import ExportedSteering, parse_processor
from tasks.gpu.processor import render_processor
from tasks.gpu.processor_check import model_hashes
from tasks.gpu.processor_template import ModelCheck

STOP, TOKENS = 2, 4
PROMPTS = [[504 + i, 3575, 282 + 7 * i] for i in range(20)]


@dataclasses.dataclass(frozen=True)
class Checked:
    """Writes the processor of the server under its own name, with answers to check a model by."""

    steering: ExportedSteering
    folder: Path
    name: str

    def write(self, model: Path, texts: list[str], least: int = 0) -> Path:
        answers = [{"prompt": p, "text": text, "tokens": TOKENS} for p, text in zip(PROMPTS, texts, strict=True)]
        check = ModelCheck(
            name=model.name, **model_hashes(str(model)), stops=[STOP], answers=answers, min_new_tokens=least
        )
        one, file = self.steering, self.folder / self.name
        file.write_text(render_processor(one.deltas, one.labels, one.clustering, [], check))
        return file


@pytest.fixture
def checked(processor_file: Path, tmp_path: Path) -> Checked:
    return Checked(parse_processor(processor_file.read_text()), tmp_path, processor_file.name)


def generate(url: str, processor: str | None, **more: int) -> list[str]:
    sampling = {"temperature": 0, "max_new_tokens": TOKENS, "stop_token_ids": [STOP], **more}
    body = {"input_ids": PROMPTS, "sampling_params": sampling, "custom_logit_processor": processor}
    reply = httpx.post(f"{url}/generate", json=body, headers=HEADERS, timeout=120, trust_env=False)
    assert reply.status_code == 200, reply.text
    return [str(one["text"]) for one in reply.json()]


def run(file: Path, *arguments: str, key: str = KEY) -> subprocess.CompletedProcess[str]:
    """Run the file where nothing but Python is installed."""
    environment = {"SERVER_API_KEY": key, "no_proxy": "*"}
    command = [sys.executable, "-S", str(file), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)


def test_it_accepts_the_model_that_it_was_made_for(
    target_server: TargetServer, model_folder: Path, processor_file: Path, checked: Checked
) -> None:
    # Given the server's answers when the file that it has loaded steers them
    steered = generate(target_server.url, run(processor_file, "--string").stdout.strip())
    assert steered != generate(target_server.url, None)
    # When the file that holds them is asked whether this is its model
    said = run(checked.write(model_folder, steered), "--verify", target_server.url)
    # Then it is, by its files and by its answers
    what = "its configuration and tokenizer are the same, and 20 of 20 answers are the same"
    assert said.stdout == f"accepted: {target_server.url} has {model_folder.name}: {what}\n", said.stderr
    assert said.returncode == 0


def test_it_refuses_a_model_that_it_was_not_made_for(target_server: TargetServer, checked: Checked) -> None:
    # Given a file that was made for a model of another configuration
    other = make_small_model(checked.folder / "other")
    model, tokenizer = AutoModelForCausalLM.from_pretrained(other), AutoTokenizer.from_pretrained(other)
    ids = torch.tensor(PROMPTS)
    made = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=TOKENS)
    texts = tokenizer.batch_decode(made[:, ids.shape[1] :], skip_special_tokens=True)
    file = checked.write(other, texts)
    # Then it refuses this one by its files, before a question
    said = run(file, "--verify", target_server.url)
    assert (said.returncode, said.stdout) == (1, "")
    assert said.stderr == f"refused: {target_server.url} has not other: its config is not the same\n"
    # And by its answers, where the files are not on the same machine
    (other / "config.json").unlink()
    said = run(checked.write(other, texts), "--verify", target_server.url)
    assert (said.returncode, said.stdout) == (1, "")
    reason = "or does not steer it with this file: 0 of 20 answers are the same"
    assert said.stderr == f"refused: {target_server.url} has not other, {reason}\n"


def test_it_asks_for_the_least_number_of_tokens(labels_folder: Path, tmp_path: Path) -> None:
    # Given a server whose file ends each answer at once, and its answers of at least three tokens
    model = make_small_model(tmp_path / "model")
    file, labels = tmp_path / "processor_best.py", np.load(labels_folder / f"{CLUSTERING}.npy")
    deltas = {str(cluster): 900.0 * (cluster == 0) for cluster in range(CLUSTERS)}
    file.write_text(render_processor(deltas, labels, CLUSTERING, []))
    checked = Checked(parse_processor(file.read_text()), tmp_path, file.name)
    with serving(model, labels_folder, tmp_path / "log", "--processor", str(file)) as server:
        processor = run(file, "--string").stdout.strip()
        assert set(generate(server.url, processor)) == {""}
        texts = generate(server.url, processor, min_new_tokens=3)
        assert all(texts)
        # When the file asks for as many, then the answers are the same; without them all are empty
        accepted = run(checked.write(model, texts, 3), "--verify", server.url)
        assert accepted.returncode == 0 and "20 of 20 answers are the same" in accepted.stdout, accepted.stderr
        refused = run(checked.write(model, texts), "--verify", server.url)
        assert refused.returncode == 1 and "0 of 20 answers are the same" in refused.stderr


def test_what_it_cannot_ask_is_one_line(target_server: TargetServer, processor_file: Path) -> None:
    for url, key, reason in (
        (target_server.url, "wrong", "SERVER_API_KEY holds the key"),
        ("http://127.0.0.1:9", KEY, "Connection refused"),
        (target_server.url, KEY, "this file holds no answers to compare"),
    ):
        said = run(processor_file, "--verify", url, key=key)
        assert said.returncode == 2 and reason in said.stderr and "Traceback" not in said.stderr
