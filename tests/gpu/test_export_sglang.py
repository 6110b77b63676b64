"""The exported file in an SGLang server that knows nothing of Whetstone.

The reference is the engine itself: `logit_bias` in a request adds to its logits what it is told to.  Inference is
deterministic, so an answer does not depend on those beside it.
"""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from conftest import CLUSTERING, CLUSTERS, COMMAND, SAMPLE, SYSTEM, TEMPLATE, labels_of

from tasks.gpu.model_files import model_hashes
from tasks.gpu.processor import SGLANG, ModelCheck, render_file
from tasks.gpu.prompt import answer_ends, load_tokenizer, render
from tasks.questions import load_examples

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(900)]
ARGUMENTS = (
    "--attention-backend triton --sampling-backend pytorch --mem-fraction-static 0.2 --max-total-tokens 100000 "
    "--enable-deterministic-inference --enable-custom-logit-processor"
)
SYSTEMS = (SYSTEM, "Answer in one sentence.", "You are careful. Show how you found the answer.")
ANSWERS, TOKENS, IN_FLIGHT, READY_S = 100, 64, 16, 300


@contextmanager
def plain_server(model: str, folder: Path) -> Iterator[str]:
    """The address of a server without Whetstone's plugin, with the folder of the exported file on its module path."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    command = [*shlex.split(COMMAND), "--model-path", model, "--host", "127.0.0.1", "--port", str(port)]
    log, environment = folder / "server.log", {"CUDA_VISIBLE_DEVICES": "0", **os.environ, "PYTHONPATH": path}
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*command, *shlex.split(ARGUMENTS)],
            env=environment, stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    try:
        url, deadline = f"http://127.0.0.1:{port}", time.monotonic() + READY_S
        while not is_healthy(url):
            text = log.read_text(errors="replace")
            assert process.poll() is None and time.monotonic() < deadline, f"it did not become ready:\n{text[-4000:]}"
            time.sleep(0.5)
        yield url
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)


def is_healthy(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", timeout=30, trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


@dataclass(frozen=True)
class Exported:
    """The string that names the file, a server that has it, questions, and the biases of the vocabulary."""

    processor: str
    url: str
    prompts: list[list[int]]
    stops: list[int]
    biases: dict[str, float]

    def answers(self, sampling: dict[str, Any], **body: Any) -> list[str]:
        """The greedy answers to all prompts."""
        greedy = {"temperature": 0, "max_new_tokens": TOKENS, "stop_token_ids": self.stops, **sampling}

        def ask(prompt: list[int]) -> str:
            asked = {"input_ids": prompt, "sampling_params": greedy, **body}
            reply = httpx.post(f"{self.url}/generate", json=asked, timeout=300, trust_env=False)
            assert reply.status_code == 200, reply.text[:1000]
            return str(reply.json()["text"])

        with ThreadPoolExecutor(IN_FLIGHT) as pool:
            return list(pool.map(ask, self.prompts))


@pytest.fixture(scope="module")
def exported(model: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exported]:
    folder, tokenizer, labels = tmp_path_factory.mktemp("export"), load_tokenizer(model), labels_of(model)
    asked = [(system, one) for system in SYSTEMS for one in load_examples(SAMPLE)][:ANSWERS]
    prompts = [list(render(tokenizer, system, TEMPLATE, one.context, one.question)) for system, one in asked]
    deltas = np.random.default_rng(7).normal(0, 2, CLUSTERS).astype(np.float32)
    by_cluster = {str(cluster): float(delta) for cluster, delta in enumerate(deltas)}
    file, check = folder / "processor_best.py", ModelCheck(name=model, **model_hashes(model))
    file.write_text(render_file(SGLANG, by_cluster, labels, CLUSTERING, [], check))
    command = [sys.executable, str(file), "--string"]
    processor = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    biases = {str(token): float(deltas[label]) for token, label in enumerate(labels.tolist())}
    with plain_server(model, folder) as url:
        yield Exported(processor, url, prompts, sorted(answer_ends(tokenizer)), biases)


@pytest.mark.parametrize("strength", [1.0, 0.5])
def test_a_hundred_greedy_answers_are_those_of_the_engines_logits_plus_the_biases(
    exported: Exported, strength: float
) -> None:
    biases = {token: strength * bias for token, bias in exported.biases.items()}
    reference, plain = exported.answers({"logit_bias": biases}), exported.answers({})
    steered = exported.answers({"custom_params": {"strength": strength}}, custom_logit_processor=exported.processor)
    changed = sum(a != b for a, b in zip(steered, plain, strict=True))
    print(f"{changed} of {len(steered)} answers differ from the plain model's")
    # Each is the reference's, and steering has changed them
    assert len(steered) == ANSWERS and steered == reference
    assert changed > ANSWERS / 4
