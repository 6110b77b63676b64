"""Shared by the GPU benchmarks: options, a run in a real store, and the result file with versions and GPU.

`--engine embedded --model embedded` runs any of them with the embedded server on a CPU; only the server differs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import httpx
import numpy as np

from benchmarks import figures
from tasks.context import content_hash
from tasks.dataset import load_examples
from tasks.gpu.cluster import pack_labels
from tasks.gpu.clustering.vocabulary import decode_vocabulary, eos_tokens, number_tokens
from tasks.gpu.prompt import load_tokenizer
from tasks.models import Clusters, Endpoint, Fitness, Judge, Reflector, Run, Sampling, Target
from tasks.plan import Candidate, Plan
from tasks.store.address import ENVIRONMENT_VARIABLE, store_url
from tasks.store.client import connect
from tasks.store.store import Store
from workers.embedded import models, valkey

CLUSTERS = 12
DELTA = 0.3  # standard deviation of an individual's deltas: enough to change answers and keep them readable
SYSTEM_PROMPT = "Answer the question using the provided context."
TEMPLATE = "Context:\n{context}\n\nQuestion:\n{query}"
SGLANG = f"{sys.executable} -m sglang.launch_server"
ARGUMENTS = "--attention-backend triton --sampling-backend pytorch --mem-fraction-static 0.8"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options for the model, the questions, and the server's command."""
    parser.add_argument("--model", required=True, help="a folder, or embedded")
    parser.add_argument("--data", type=Path, required=True, help="questions in FinanceBench's format")
    parser.add_argument("--rows", type=int, default=100, help="how many of them, from the first on")
    parser.add_argument("--cap", type=int, default=512, help="new tokens of an answer at most")
    parser.add_argument("--engine", choices=["sglang", "embedded"], default="sglang")
    parser.add_argument("--command", default=SGLANG, help="the command that starts SGLang")
    parser.add_argument("--args", default=None, help=f"further arguments of the server (SGLang: {ARGUMENTS!r})")
    parser.add_argument("--folder", type=Path, required=True, help="takes logs and data; emptied first")


def fresh(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder.resolve()


def server_arguments(options: argparse.Namespace) -> str:
    return str(options.args) if options.args is not None else ARGUMENTS if options.engine == "sglang" else ""


def model_folder(options: argparse.Namespace) -> str:
    return str(models.embedded_model() if options.model == "embedded" else Path(options.model).resolve())


def target_of(
    options: argparse.Namespace, concurrency: int, lifecycle: Literal["resident", "restart"] = "resident"
) -> Target:
    return Target(
        model=options.model if options.model == "embedded" else model_folder(options),
        engine=options.engine,
        lifecycle=lifecycle,
        url="",
        command=options.command,
        args=server_arguments(options),
        device="cuda" if options.engine == "sglang" else "cpu",
        dtype="auto",
        ready_timeout_s=400,
        request_timeout_s=300,
        concurrency=concurrency,
        system_prompt=SYSTEM_PROMPT,
        prompt_template=TEMPLATE,
        sampling=Sampling(options.cap, 0.0, 1.0, 42),
    )


def run_of(name: str, target: Target, folder: Path) -> Run:
    """A run that only answers: its judge and reflector are never called, and no answer comes from the cache."""
    return Run(
        name, 1, target,
        Judge("m", 0.01, True, 0, 1, 1, 1, 1), Reflector("m", 0, 1, 1, 1), Endpoint("", "K", 1, 1, 1, 1, 0, 0, 0, 0),
        Fitness(0.4, 0.6, 50), Clusters(str(folder), "m", 1, 1, 1, 1, "cpu"), evaluation_cache=False,
    )  # fmt: skip


def labels_for(model: str, seed: int = 7) -> Any:
    """A cluster for each token [V] uint8: ends in 0, numbers in 1, the others at random from 2 on.

    Steering costs the same for any clustering, so the vocabulary is not embedded.
    """
    tokenizer = load_tokenizer(model)
    vocabulary, ends = decode_vocabulary(tokenizer), eos_tokens(tokenizer)
    found = np.random.default_rng(seed).integers(2, CLUSTERS, len(vocabulary)).astype(np.uint8)
    found[sorted(number_tokens(vocabulary, without=ends))] = 1
    found[sorted(ends)] = 0
    return found


def put_run(store: Store, run: Run, model: str, data: Path, rows: int) -> int:
    """Store a run with its questions and a clustering.  Returns the number of questions."""
    chosen = load_examples(data)[:rows]
    found = labels_for(model)
    clustering = content_hash(found.tolist())[:32]
    described = [{"id": k, "description": f"cluster {k}"} for k in range(CLUSTERS)]
    store.put_run(run)
    store.put_examples(run.id, {"training": chosen, "validation": []})
    store.clusterings.put(run.id, clustering, pack_labels(found), json.dumps(described))
    store.put_metadata(run.id, "clustering", clustering)
    return len(chosen)


def population(name: str, size: int, seed: int) -> Plan:
    """A plan of new individuals, each with deltas of its own."""
    drawn = np.random.default_rng(seed).normal(0, DELTA, (size, CLUSTERS))
    return Plan(name, 0, tuple(Candidate(i, tuple(map(float, deltas))) for i, deltas in enumerate(drawn)))


@contextmanager
def open_valkey(folder: Path) -> Iterator[tuple[str, Store]]:
    """A new Valkey: its address, which is also set in this process's environment, and its store."""
    socket = valkey.socket_path(folder)
    server, url = valkey.valkey_process(folder, socket, None), valkey.redis_url(socket)
    server.start()
    try:
        server.wait_ready(lambda: valkey.is_answering(socket), valkey.READY_S)
        os.environ[ENVIRONMENT_VARIABLE] = url
        yield url, Store(connect(store_url(url)))
    finally:
        server.stop(3)
        valkey.remove_socket(folder)


def client(url: str, api_key: str | None) -> httpx.Client:
    """A client for the server's other routes."""
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    return httpx.Client(base_url=url, headers=headers, timeout=30, trust_env=False)


def server_version(http: httpx.Client) -> str:
    """The version that a server reports, or "embedded"."""
    return str(http.get("/server_info").json().get("version", "embedded"))


def gpus() -> list[str]:
    """Name, memory and driver of each GPU; empty without nvidia-smi."""
    try:
        query = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
        return subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip().splitlines()
    except (OSError, subprocess.CalledProcessError):
        return []


def write(name: str, options: argparse.Namespace, version: str, **found: Any) -> None:
    """benchmarks/results/gpu_<name>.json: the figures, the versions, the GPU and the command."""
    figures.write(
        f"gpu_{name}",
        {
            "command": " ".join(["python", *sys.argv]),
            "gpus": gpus(),
            "engine": options.engine,
            "sglang": version,
            "arguments": server_arguments(options),
            "model": Path(options.model).name,
            "rows": options.rows,
            "cap": options.cap,
            **found,
        },
    )


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return figures.table(head, rows)
