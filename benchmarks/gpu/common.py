"""Shared by the GPU benchmarks: options, a server, settings of runs, and the result file with versions and GPU.

`--engine embedded --model embedded` runs any of them with the embedded server on a CPU; only the server differs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import httpx

from benchmarks import figures
from tasks.common.files import unix_path
from tasks.common.http import http_url
from tasks.judging.exact_number import final_number
from tasks.records import Sampling, Target
from workers.embedded import models
from workers.embedded.farm import FarmSpec
from workers.sglang.gpus import GPU_VARIABLE, SHARED
from workers.sglang.host import KEY_NAME, LocalTargetHost

CONFIG = Path(__file__).parents[2] / "configs" / "gpu.config"
MOST_SLOTS = 256  # individuals whose last answers may be missing, on one gpu worker
SYSTEM_PROMPT = "Answer the question using the provided context."
TEMPLATE = "Context:\n{context}\n\nQuestion:\n{query}"
SGLANG = f"{sys.executable} -m sglang.launch_server"
RULE_JUDGE = f"{Path(__file__).parents[2] / 'examples' / 'rule_judge.py'}:judge"
"""The three stages by rules, without an endpoint: for right answers in words or numbers (TAT-QA, FinanceBench).
"exact_number" is for data whose right answers all have a number (GSM8K)."""
ARGUMENTS = "--attention-backend triton --sampling-backend pytorch --mem-fraction-static 0.8"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options for the model, the questions, and the server's command."""
    parser.add_argument("--data", type=Path, required=True, help="questions: JSON Lines")
    parser.add_argument("--rows", type=int, default=100, help="how many of them, from the first on")
    add_server_options(parser)


def add_server_options(parser: argparse.ArgumentParser) -> None:
    """Options for the model and the server's command."""
    parser.add_argument("--model", required=True, help="a folder, or embedded")
    parser.add_argument("--cap", type=int, default=512, help="new tokens of an answer at most")
    parser.add_argument("--engine", choices=["sglang", "embedded"], default="sglang")
    parser.add_argument("--command", default=SGLANG, help="the command that starts SGLang")
    parser.add_argument("--args", default=None, help=f"further arguments of the server (SGLang: {ARGUMENTS!r})")
    parser.add_argument("--folder", type=Path, required=True, help="takes logs and data; emptied first")


def fresh(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder.resolve()


def judge_for(data: Path) -> str:
    """By numbers where every right answer of the questions has one, else by rules."""
    golds = [str(json.loads(line)["answer"]) for line in data.read_text(encoding="utf-8").splitlines() if line.strip()]
    return RULE_JUDGE if any(final_number(gold) is None for gold in golds) else "exact_number"


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
        command=options.command,
        args=server_arguments(options),
        device="cuda" if options.engine == "sglang" else "cpu",
        ready_timeout_s=400,
        request_timeout_s=300,
        concurrency=concurrency,
        system_prompt=SYSTEM_PROMPT,
        prompt_template=TEMPLATE,
        sampling=Sampling(options.cap, 0.0, 1.0, 42),
    )


@contextmanager
def open_server(options: argparse.Namespace, target: Target) -> Iterator[tuple[str, str | None]]:
    """A server in options.folder for all runs of a benchmark: its address and API key.

    The workers of a farm that is started in the block use it without owning it, and embed the vocabulary on its GPU.
    """
    host = LocalTargetHost(options.folder / "farm", "bench", dict(os.environ))
    try:
        started = time.perf_counter()
        url, key = host.serve(target), host.api_key(target)
        print(f"server ready in {time.perf_counter() - started:.1f} s", flush=True)
        os.environ |= {KEY_NAME: str(key), GPU_VARIABLE: SHARED}
        yield url, key
    finally:
        host.close()


def farm_spec(options: argparse.Namespace, openai_workers: int = 1) -> FarmSpec:
    """A farm in options.folder whose gpu worker takes MOST_SLOTS individuals at once."""
    folder = str(options.folder / "farm")
    return FarmSpec(folder=folder, gpu_slots=MOST_SLOTS, openai_workers=openai_workers, log_level="WARNING")


def settings_of(options: argparse.Namespace, redis_url: str, url: str) -> dict[str, Any]:
    """Settings of `orchestrator evolve` on the farm at `redis_url`, whose calls of the endpoint cost nothing.

    Without a `url` the farm's worker starts the server.
    """
    return {
        "FARM": redis_url,
        "TARGET_MODEL": options.model if options.model == "embedded" else model_folder(options),
        "DEVICE": "cuda" if options.engine == "sglang" else "cpu",
        "SGLANG_URL": url,
        "SGLANG_ARGS": server_arguments(options),
        "TARGET_MAX_NEW_TOKENS": options.cap,
        "OPENAI_REQUESTS_PER_MINUTE": 10_000_000,
        "OPENAI_TOKENS_PER_MINUTE": 2_000_000_000,
        "OPENAI_PRICES": "0 0 0",
        "BUDGET_USD": 0,
    }


def evolve_arguments(settings: Mapping[str, Any], output: Path, sets: Sequence[str] = ()) -> list[str]:
    """`evolve` with these settings and further NAME=VALUE texts, which win."""
    chosen = {**settings, **dict(text.split("=", 1) for text in sets)}
    options = [part for name, value in chosen.items() for part in ("--set", f"{name}={value}")]
    return ["evolve", "--config", str(CONFIG), *options, "--output", str(output), "--plain"]


def client(url: str, api_key: str | None, timeout_s: float = 30, limits: httpx.Limits = httpx.Limits()) -> httpx.Client:
    """A client for the server's other routes."""
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    path = unix_path(url)
    return httpx.Client(
        base_url=http_url(url, ""),
        transport=httpx.HTTPTransport(uds=path, limits=limits) if path else None,
        headers=headers,
        timeout=timeout_s,
        trust_env=False,
        limits=limits,
    )


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
