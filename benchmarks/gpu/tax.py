"""What steering costs: tokens a second of many requests of several individuals, steered against plain.

One server, the same prompts, in turns plain, steered by our plugin, and steered with the end of a turn after sentence
ends only.  Every request runs to its full length.
`python benchmarks/gpu/tax.py --model FOLDER --folder WORK`, or `--shape` for Llama-3.1-8B's with dummy weights.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shlex
import socket
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks import figures
from tasks.gpu.target import PROCESSOR
from workers.processes import ChildProcess, Command, is_healthy
from workers.sglang import server as target_server
from workers.steering.request import LABELS_VARIABLE

VOCABULARY = 128256
LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "hidden_act": "silu",
    "torch_dtype": "bfloat16", "bos_token_id": 128000, "eos_token_id": 128009, "tie_word_embeddings": False,
}  # fmt: skip
CLUSTERS = 14
CLUSTERING = "0123456789abcdef"
WAYS = {"plain": None, "plugin": PROCESSOR, "sentences": PROCESSOR}
ARGUMENTS = (
    "--attention-backend triton --sampling-backend pytorch --skip-tokenizer-init --enable-custom-logit-processor "
    "--max-running-requests 256 --cuda-graph-max-bs 256"
)


def prepare(options: argparse.Namespace) -> tuple[Path, int]:
    """The model's folder, made when only its shape is wanted, and the width of its vocabulary."""
    folder = options.folder.resolve()
    if not options.shape:
        return options.model, json.loads((options.model / "config.json").read_text())["vocab_size"]
    (folder / "shape").mkdir(parents=True, exist_ok=True)
    (folder / "shape" / "config.json").write_text(json.dumps(LLAMA))
    return folder / "shape", VOCABULARY


def serve(options: argparse.Namespace, model: Path, width: int) -> tuple[ChildProcess, str]:
    """A ready server that finds the steering module and the labels."""
    labels = options.folder / "labels"
    labels.mkdir(parents=True, exist_ok=True)
    clusters = np.random.default_rng(1).integers(0, CLUSTERS, width).astype(np.uint8)
    np.save(labels / f"{CLUSTERING}.npy", clusters, allow_pickle=False)
    ends = np.random.default_rng(3).choice(np.array([0, 1, 2, 4], np.uint8), width, p=[0.9, 0.04, 0.03, 0.03])
    np.save(labels / f"{CLUSTERING}.ends.npy", ends, allow_pickle=False)
    path = [target_server.make_steering_path(options.folder / "path"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, LABELS_VARIABLE: str(labels), "PYTHONPATH": os.pathsep.join(map(str, path))}
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    arguments = ["--model-path", str(model), "--host", "127.0.0.1", "--port", str(port), *shlex.split(ARGUMENTS)]
    arguments += ["--load-format", "dummy"] * options.shape + shlex.split(options.args)
    command = (sys.executable, "-m", "sglang.launch_server", *arguments)
    server = ChildProcess(Command("sglang", command, options.folder / "server.log", environment))
    server.start()
    server.wait_ready(lambda: is_healthy(f"http://127.0.0.1:{port}", 30), 400)
    return server, f"http://127.0.0.1:{port}"


def bodies(options: argparse.Namespace, way: str, width: int, new: int) -> list[dict[str, Any]]:
    """The requests of all individuals, each prompt its own and the same in every round."""
    random = np.random.default_rng(2)
    prompts = random.integers(10, min(width, 49000), (options.requests, options.prompt)).tolist()
    people = random.normal(0, 0.3, (options.individuals, CLUSTERS)).tolist()
    found = []
    for index, prompt in enumerate(prompts):
        sampling: dict[str, Any] = {"max_new_tokens": new, "temperature": 0.0, "ignore_eos": True}
        asked: dict[str, Any] = {"input_ids": prompt, "sampling_params": sampling}
        if WAYS[way] is not None:
            end = {"end": "sentence"} if way == "sentences" else {}
            sampling["custom_params"] = {"clustering": CLUSTERING, "deltas": people[index % len(people)], **end}
            asked["custom_logit_processor"] = WAYS[way]
        found.append(asked)
    return found


async def tokens_a_second(url: str, asked: list[dict[str, Any]]) -> float:
    """All requests in flight at once; tokens generated over the time from the first question to the last answer."""
    texts = [json.dumps(body).encode() for body in asked]
    connector = aiohttp.TCPConnector(limit=len(asked))
    headers = {"Content-Type": "application/json"}
    timeout = aiohttp.ClientTimeout(total=600)
    async with aiohttp.ClientSession(connector=connector, headers=headers, timeout=timeout) as http:

        async def one(text: bytes) -> int:
            async with http.post(f"{url}/generate", data=text) as reply:
                reply.raise_for_status()
                return int((await reply.json())["meta_info"]["completion_tokens"])

        started = time.perf_counter()
        tokens = await asyncio.gather(*map(one, texts))
        seconds = time.perf_counter() - started
    assert set(tokens) == {asked[0]["sampling_params"]["max_new_tokens"]}, "a request ended before its length"
    return float(sum(tokens) / seconds)


def measure(options: argparse.Namespace, url: str, width: int) -> list[dict[str, Any]]:
    found = []
    for new, rounds in zip(options.new, options.rounds, strict=True):
        requests = {way: bodies(options, way, width, new) for way in WAYS}
        for way in WAYS:  # kernels compile, prompts become known
            asyncio.run(tokens_a_second(url, requests[way]))
        speeds: dict[str, list[float]] = {way: [] for way in WAYS}
        for turn in range(rounds):
            for way in list(WAYS) if turn % 2 == 0 else reversed(WAYS):
                speeds[way].append(asyncio.run(tokens_a_second(url, requests[way])))
        found.append({"new_tokens": new, "tokens_a_second": speeds, **ratios(speeds)})
    return found


def ratios(speeds: dict[str, list[float]]) -> dict[str, Any]:
    """Medians of each way's tokens a second over plain's in the same round."""
    pairs = {way: [a / b for a, b in zip(speed, speeds["plain"], strict=True)] for way, speed in speeds.items()}
    return {"ratio": {way: statistics.median(found) for way, found in pairs.items()}, "ratios": pairs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--model", type=Path, help="a folder")
    which.add_argument("--shape", action="store_true", help="Llama-3.1-8B's shape, dummy weights")
    parser.add_argument("--folder", type=Path, required=True, help="takes labels and the server's log")
    parser.add_argument("--name", default="tax", help="benchmarks/results/gpu_<name>.json")
    parser.add_argument("--requests", type=int, default=256)
    parser.add_argument("--individuals", type=int, default=256)
    parser.add_argument("--prompt", type=int, default=900, help="tokens of a prompt")
    parser.add_argument("--new", type=int, nargs="+", default=[128, 512], help="new tokens of an answer")
    parser.add_argument("--rounds", type=int, nargs="+", default=[15, 5], help="for each of --new")
    parser.add_argument("--args", default="", help="further arguments of the server")
    options = parser.parse_args()
    options.folder = options.folder.resolve()
    options.folder.mkdir(parents=True, exist_ok=True)
    model, width = prepare(options)
    started = time.perf_counter()
    server, url = serve(options, model, width)
    print(f"ready in {time.perf_counter() - started:.0f} s", flush=True)
    try:
        info = httpx.get(f"{url}/server_info", timeout=60, trust_env=False).json()
        found = measure(options, url, width)
    finally:
        server.stop(5)
    rows = [
        [str(one["new_tokens"]), way, f"{statistics.median(speeds):,.0f}", f"{one['ratio'][way]:.3f}",
         f"{min(one['ratios'][way]):.3f} to {max(one['ratios'][way]):.3f}", str(len(speeds))]
        for one in found for way, speeds in one["tokens_a_second"].items()
    ]  # fmt: skip
    print(figures.table(["new tokens", "way", "tokens/s", "of plain", "rounds from to", "rounds"], rows))
    figures.write(
        f"gpu_{options.name}",
        {"command": " ".join(["python", *sys.argv]), "sglang": info.get("version"), "model": str(model.name),
         "vocabulary": width, "requests": options.requests, "prompt": options.prompt, "found": found},
    )  # fmt: skip


if __name__ == "__main__":
    main()
