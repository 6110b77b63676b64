"""Real SGLang on a real GPU: `WHETSTONE_GPU_MODEL=FOLDER pytest -m gpu tests/gpu`, see docs/farm.md.

Two servers of the same model stand on one GPU, one of them started with deterministic inference.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from tasks.gpu.cluster import pack_labels, write_labels
from tasks.gpu.clustering.vocabulary import classify_tokens, sentence_ends
from tasks.gpu.prompt import answer_ends, load_tokenizer, render
from tasks.gpu.target import Generated, GenerateRequest, TargetClient
from tasks.questions import load_examples
from tasks.records import Sampling, Target
from workers.sglang.gpus import GPU_VARIABLE, SHARED
from workers.sglang.host import LocalTargetHost

MODEL_VARIABLE = "WHETSTONE_GPU_MODEL"
COMMAND = os.environ.get("WHETSTONE_GPU_COMMAND") or f"{sys.executable} -m sglang.launch_server"
SAMPLE = Path(__file__).parents[2] / "configs/data/sample.jsonl"
ARGUMENTS = "--attention-backend triton --sampling-backend pytorch --mem-fraction-static 0.5 --max-total-tokens 200000"
CLUSTERS = 14
CLUSTERING = "0123456789abcdef"
SYSTEM = "Answer the question using the provided context."
TEMPLATE = "Context:\n{context}\n\nQuestion:\n{query}"


@dataclass(frozen=True)
class Server:
    """A ready server, its questions and the cluster of each token [V]."""

    host: LocalTargetHost
    target: Target
    prompts: tuple[tuple[int, ...], ...]
    labels: np.ndarray
    ends: tuple[int, ...]

    @property
    def url(self) -> str:
        return self.host.serve(self.target)

    @property
    def key(self) -> str | None:
        return self.host.api_key(self.target)

    def request(self, prompt: int, deltas: Sequence[float] | None, new: int = 64, **given: Any) -> GenerateRequest:
        steered = {} if deltas is None else {"deltas": tuple(deltas), "clustering": CLUSTERING}
        options = {"temperature": 0.0, "top_p": 1.0, "seed": 1, "stop_token_ids": self.ends, **steered, **given}
        return GenerateRequest(self.prompts[prompt], new, **options)

    def answers(self, requests: Sequence[GenerateRequest]) -> list[Generated]:
        """All of them in flight at once."""
        found: dict[int, Generated] = {}
        TargetClient(self.url, 120, len(requests), api_key=self.key).generate_many(requests, found.__setitem__)
        return [found[index] for index in range(len(requests))]


def host_in(folder: Path) -> LocalTargetHost:
    """A host that shares the first GPU with others."""
    return LocalTargetHost(folder, "gpu", {"CUDA_VISIBLE_DEVICES": "0", **os.environ, GPU_VARIABLE: SHARED})


def target_of(model: str, arguments: str, lifecycle: Literal["resident", "restart"] = "resident") -> Target:
    return Target(
        model=model, engine="sglang", lifecycle=lifecycle, command=COMMAND, args=f"{ARGUMENTS} {arguments}".strip(),
        device="cuda", ready_timeout_s=300, request_timeout_s=120, concurrency=64, system_prompt=SYSTEM,
        prompt_template=TEMPLATE, sampling=Sampling(64, 0.0, 1.0, 1),
    )  # fmt: skip


def labels_of(model: str) -> np.ndarray:
    """The cluster of each token [V] uint8: the ends of a turn in 0, numbers in 1, the others anywhere."""
    tokenizer = load_tokenizer(model)
    vocabulary, ends, numbers = classify_tokens(tokenizer)
    labels = np.random.default_rng(3).integers(2, CLUSTERS, len(vocabulary)).astype(np.uint8)
    labels[sorted(numbers)] = 1
    labels[sorted(ends)] = 0
    return labels


@pytest.fixture(scope="session")
def model() -> str:
    folder = os.environ.get(MODEL_VARIABLE)
    if not folder:
        pytest.skip(f"{MODEL_VARIABLE} names no model")
    return folder


@pytest.fixture(scope="session")
def servers(model: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Server]]:
    tokenizer, labels = load_tokenizer(model), labels_of(model)
    ends = answer_ends(tokenizer)
    prompts = tuple(tuple(render(tokenizer, SYSTEM, TEMPLATE, e.context, e.question)) for e in load_examples(SAMPLE))

    def start(folder: Path, arguments: str) -> Server:
        host = host_in(folder)
        np.save(host.labels_folder() / f"{CLUSTERING}.npy", labels)
        write_labels(pack_labels(sentence_ends(model)), f"{CLUSTERING}.ends", host.labels_folder())
        server = Server(host, target_of(model, arguments), prompts, labels, tuple(sorted(ends)))
        print(f"{folder.name}: {server.url}")
        return server

    wanted = {"plain": "", "deterministic": "--enable-deterministic-inference"}
    folders = [tmp_path_factory.mktemp(name) for name in wanted]
    with ThreadPoolExecutor() as pool:
        found = dict(zip(wanted, pool.map(start, folders, wanted.values()), strict=True))
    yield found
    for server in found.values():
        server.host.close()


@pytest.fixture(scope="session")
def server(servers: Mapping[str, Server]) -> Server:
    return servers["plain"]
