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
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
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
MODULE = "processor_best"


@dataclass(frozen=True)
class PlainServer:
    """A server without Whetstone's plugin, with the folder of the exported file on its module path."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path

    def ask(self, prompt: Sequence[int], stops: Sequence[int], **given: Any) -> str:
        """The greedy answer; `logit_bias` goes into the sampling parameters, `processor` selects the file."""
        sampling: dict[str, Any] = {"temperature": 0, "max_new_tokens": TOKENS, "stop_token_ids": list(stops)}
        if "logit_bias" in given:
            sampling["logit_bias"] = given["logit_bias"]
        body = {"input_ids": list(prompt), "sampling_params": sampling}
        if "processor" in given:
            body["custom_logit_processor"] = given["processor"]
            sampling["custom_params"] = {"strength": given.get("strength", 1.0)}
        reply = httpx.post(f"{self.url}/generate", json=body, timeout=300, trust_env=False)
        assert reply.status_code == 200, reply.text[:1000]
        return str(reply.json()["text"])

    def answers(self, prompts: Sequence[Sequence[int]], stops: Sequence[int], **given: Any) -> list[str]:
        with ThreadPoolExecutor(IN_FLIGHT) as pool:
            return list(pool.map(lambda prompt: self.ask(prompt, stops, **given), prompts))


def start_server(model: str, folder: Path) -> PlainServer:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    command = [*shlex.split(COMMAND), "--model-path", model, "--host", "127.0.0.1", "--port", str(port)]
    command += shlex.split(ARGUMENTS)
    log = folder / "server.log"
    with log.open("wb") as out:
        gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "0")
        environment = {**os.environ, "PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": gpu}
        process = subprocess.Popen(
            command, env=environment, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
    server = PlainServer(f"http://127.0.0.1:{port}", process, log)
    deadline = time.monotonic() + READY_S
    while True:
        if process.poll() is not None or time.monotonic() > deadline:
            os.killpg(process.pid, signal.SIGKILL)
            pytest.fail(f"the server did not become ready:\n{log.read_text(errors='replace')[-4000:]}")
        try:
            if httpx.get(f"{server.url}/health", timeout=30, trust_env=False).status_code == 200:
                return server
        except httpx.TransportError:
            time.sleep(0.5)


@dataclass(frozen=True)
class Exported:
    """The string that names the file, the server that has it, questions, and the biases of the vocabulary."""

    processor: str
    server: PlainServer
    prompts: list[list[int]]
    stops: list[int]
    biases: dict[str, float]

    def reference(self, strength: float) -> list[str]:
        biases = {token: strength * bias for token, bias in self.biases.items()}
        return self.server.answers(self.prompts, self.stops, logit_bias=biases)


@pytest.fixture(scope="module")
def exported(model: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exported]:
    folder, tokenizer, labels = tmp_path_factory.mktemp("export"), load_tokenizer(model), labels_of(model)
    examples = load_examples(SAMPLE)
    asked = [(system, one) for system in SYSTEMS for one in examples][:ANSWERS]
    prompts = [list(render(tokenizer, system, TEMPLATE, one.context, one.question)) for system, one in asked]
    stops = sorted(answer_ends(tokenizer))
    deltas = np.random.default_rng(7).normal(0, 2, CLUSTERS).astype(np.float32)
    by_cluster = {str(cluster): float(delta) for cluster, delta in enumerate(deltas)}
    file = folder / f"{MODULE}.py"
    file.write_text(
        render_file(SGLANG, by_cluster, labels, CLUSTERING, [], ModelCheck(name=model, **model_hashes(model)))
    )
    command = [sys.executable, str(file), "--string"]
    processor = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    server = start_server(model, folder)
    try:
        biases = {str(token): float(deltas[label]) for token, label in enumerate(labels.tolist())}
        yield Exported(processor, server, prompts, stops, biases)
    finally:
        os.killpg(server.process.pid, signal.SIGKILL)
        server.process.wait(30)


@pytest.mark.parametrize("strength", [1.0, 0.5])
def test_a_hundred_greedy_answers_are_those_of_the_engines_logits_plus_the_biases(
    exported: Exported, strength: float
) -> None:
    ask, reference = exported.server.answers, exported.reference(strength)
    steered = ask(exported.prompts, exported.stops, processor=exported.processor, strength=strength)
    plain = ask(exported.prompts, exported.stops)
    equal = sum(a == b for a, b in zip(steered, reference, strict=True))
    changed = sum(a != b for a, b in zip(steered, plain, strict=True))
    print(f"{equal} of {len(steered)} answers equal the reference, {changed} differ from the plain model's")
    # Each is the reference's, and steering has changed them
    assert len(steered) == ANSWERS and steered == reference
    assert changed > ANSWERS / 4
