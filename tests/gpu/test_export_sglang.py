"""The exported file in an SGLang server that knows nothing of Whetstone: its answers, and what `--verify` says.

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

from tasks.dataset import load_examples
from tasks.gpu.clustering.vocabulary import eos_tokens
from tasks.gpu.processor import render_processor
from tasks.gpu.processor_check import model_hashes
from tasks.gpu.processor_template import CheckedAnswer, ModelCheck
from tasks.gpu.prompt import load_tokenizer, render

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
        reply = httpx.post(f"{self.url}/generate", json=body, timeout=300, trust_env=False)
        assert reply.status_code == 200, reply.text[:1000]
        return str(reply.json()["text"])

    def answers(self, prompts: Sequence[Sequence[int]], stops: Sequence[int], **given: Any) -> list[str]:
        with ThreadPoolExecutor(IN_FLIGHT) as pool:
            return list(pool.map(lambda prompt: self.ask(prompt, stops, **given), prompts))


def start_server(model: str, folder: Path, name: str, arguments: str = "") -> PlainServer:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    command = [*shlex.split(COMMAND), "--model-path", model, "--host", "127.0.0.1", "--port", str(port)]
    command += shlex.split(f"{ARGUMENTS} {arguments}")
    log = folder / f"{name}.log"
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
            pytest.fail(f"the server {name} did not become ready:\n{log.read_text(errors='replace')[-4000:]}")
        try:
            if httpx.get(f"{server.url}/health", timeout=30, trust_env=False).status_code == 200:
                return server
        except httpx.TransportError:
            time.sleep(0.5)


@dataclass(frozen=True)
class Exported:
    """The file, the server that has its model, one with other weights, and the 100 answers of the reference."""

    file: Path
    server: PlainServer
    other: PlainServer
    prompts: list[list[int]]
    stops: list[int]
    reference: list[str]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, str(self.file), *arguments], capture_output=True, text=True, check=False, timeout=300
        )


@pytest.fixture(scope="module")
def exported(model: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exported]:
    folder, tokenizer, labels = tmp_path_factory.mktemp("export"), load_tokenizer(model), labels_of(model)
    examples = load_examples(SAMPLE)
    asked = [(system, one) for system in SYSTEMS for one in examples][:ANSWERS]
    prompts = [list(render(tokenizer, system, TEMPLATE, one.context, one.question)) for system, one in asked]
    stops = sorted(eos_tokens(tokenizer))
    deltas = np.random.default_rng(7).normal(0, 2, CLUSTERS).astype(np.float32)
    with ThreadPoolExecutor() as pool:
        ours = pool.submit(start_server, model, folder, "ours")
        # Weights at random: another model with the same configuration and tokenizer.
        foreign = pool.submit(start_server, model, folder, "other", "--load-format dummy")
    started = [future.result() for future in (ours, foreign) if future.exception() is None]
    try:
        server, other = ours.result(), foreign.result()
        biases = {str(token): float(deltas[label]) for token, label in enumerate(labels.tolist())}
        reference = server.answers(prompts, stops, logit_bias=biases)
        check = ModelCheck(
            name=model,
            **model_hashes(model),
            stops=stops,
            answers=[
                CheckedAnswer(prompt=prompt, text=text, tokens=32)
                for prompt, text in list(zip(prompts, reference, strict=True))[:20]
            ],
        )
        by_cluster = {str(cluster): float(delta) for cluster, delta in enumerate(deltas)}
        file = folder / f"{MODULE}.py"
        file.write_text(render_processor(by_cluster, labels, CLUSTERING, [], check))
        yield Exported(file, server, other, prompts, stops, reference)
    finally:
        for one in started:
            os.killpg(one.process.pid, signal.SIGKILL)
            one.process.wait(30)


def test_a_hundred_greedy_answers_are_those_of_the_engines_logits_plus_the_biases(exported: Exported) -> None:
    # Given the string that the file gives for itself
    processor = exported.run("--string").stdout.strip()
    # When the server answers with it
    steered = exported.server.answers(exported.prompts, exported.stops, processor=processor)
    plain = exported.server.answers(exported.prompts, exported.stops)
    equal = sum(a == b for a, b in zip(steered, exported.reference, strict=True))
    changed = sum(a != b for a, b in zip(steered, plain, strict=True))
    print(f"{equal} of {len(steered)} answers equal the reference, {changed} differ from the plain model's")
    # Then each is the reference's, and steering has changed them
    assert len(steered) == ANSWERS and steered == exported.reference
    assert changed > ANSWERS / 2


def test_the_file_accepts_its_model_and_refuses_other_weights(exported: Exported) -> None:
    accepted = exported.run("--verify", exported.server.url)
    print(accepted.stdout, accepted.stderr)
    assert accepted.returncode == 0 and "20 of 20 answers are the same" in accepted.stdout
    refused = exported.run("--verify", exported.other.url)
    print(refused.stdout, refused.stderr)
    assert refused.returncode == 1 and refused.stderr.startswith("refused: ")
