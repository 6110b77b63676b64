"""A second evaluation of the same prompts: the embedded target against transformers' generate.

Sixteen questions of the sample data, greedy, the same weights, dtype and cap.  transformers gets them as one
left-padded batch; the embedded server gets sixteen requests of an individual with zero deltas, over HTTP, after a first
individual has left the prompts' keys and values behind.  The two take turns in one run; the ratio is of medians.
Wanted: at least 2 times as fast.
`python benchmarks/target.py [--rounds 5] [--cap 80]`
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from figures import table, write

from tasks.gpu.prompt import answer_ends, load_tokenizer, render
from tasks.gpu.target import Generated, GenerateRequest, TargetClient
from workers.embedded.models import embedded_model
from workers.queues import OPENMP_ENV

WANTED = 2.0
PROMPTS = 16
CLUSTERING, CLUSTERS = "be" * 16, 8
QUESTIONS = Path(__file__).parent.parent / "configs" / "data"
TEMPLATE = "{context}\n\nQuestion: {query}\nAnswer:"
START_S = 120
KEY = secrets.token_hex(16)

Answers = list[list[int]]


def prompts(tokenizer: Any) -> list[list[int]]:
    """The first questions of the sample, as the model reads them."""
    path = sorted(QUESTIONS.glob("*.jsonl"))[0]
    rows = [json.loads(line) for line in path.read_text().splitlines()[:PROMPTS]]
    pages = [row["evidence"][0]["evidence_text_full_page"] for row in rows]
    return [
        render(tokenizer, "You answer questions.", TEMPLATE, page, row["question"])
        for page, row in zip(pages, rows, strict=True)
    ]


@contextmanager
def server(model: Path) -> Iterator[tuple[str, str]]:
    """The address of a running embedded target and its dtype."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as labels:
        np.save(Path(labels) / f"{CLUSTERING}.npy", (np.arange(49152) % CLUSTERS).astype(np.uint8), allow_pickle=False)
        command = [sys.executable, "-m", "workers.embedded.target", "--model", str(model), "--port", str(port)]
        environment = {**os.environ, **OPENMP_ENV, "WHETSTONE_TARGET_KEY": KEY}  # as a worker starts it
        process = subprocess.Popen([*command, "--labels", labels], stderr=subprocess.DEVNULL, env=environment)
        try:
            url = f"http://127.0.0.1:{port}"
            yield url, _ready(url, process)
        finally:
            process.terminate()
            process.wait()


def _ready(url: str, process: subprocess.Popen[bytes]) -> str:
    deadline = time.monotonic() + START_S
    with httpx.Client(trust_env=False, transport=httpx.HTTPTransport(retries=4)) as http:
        while time.monotonic() < deadline and process.poll() is None:
            try:
                return str(http.get(f"{url}/server_info", headers={"Authorization": f"Bearer {KEY}"}).json()["dtype"])
            except httpx.ConnectError:
                continue  # the transport waits between its own tries
    raise RuntimeError("the embedded target did not start")


def embedded(url: str, asked: list[list[int]], stops: tuple[int, ...], cap: int) -> Answers:
    requests = [
        GenerateRequest(tuple(ids), cap, 0.0, 1.0, 0, stops, deltas=(0.0,) * CLUSTERS, clustering=CLUSTERING)
        for ids in asked
    ]
    found: dict[int, Generated] = {}
    TargetClient(url, 600, PROMPTS, KEY).generate_many(requests, found.__setitem__)
    return [list(found[number].output_ids) for number in range(len(asked))]


def plain(model: Path, dtype: str, tokenizer: Any, asked: list[list[int]], stops: tuple[int, ...], cap: int) -> Any:
    """A function that answers with transformers' generate, the model loaded and the batch padded beforehand."""
    import torch
    from transformers import AutoModelForCausalLM

    reference: Any = AutoModelForCausalLM.from_pretrained(model, dtype=getattr(torch, dtype), trust_remote_code=False)
    batch = tokenizer.pad({"input_ids": asked}, padding_side="left", return_tensors="pt")
    width = batch["input_ids"].shape[1]

    def answer() -> Answers:
        with torch.inference_mode():
            out = reference.generate(**batch, do_sample=False, max_new_tokens=cap, eos_token_id=list(stops))
        return [[token for token in row[width:].tolist() if token not in stops] for row in out]

    return answer


def timed(work: Callable[[], Answers]) -> tuple[float, Answers]:
    start = time.perf_counter()
    answers = work()
    return time.perf_counter() - start, answers


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cap", type=int, default=80, help="new tokens of an answer at most")
    options = parser.parse_args()
    model = embedded_model()
    tokenizer = load_tokenizer(str(model))
    asked, stops = prompts(tokenizer), tuple(sorted(answer_ends(tokenizer)))
    with server(model) as (url, dtype):
        generate = plain(model, dtype, tokenizer, asked, stops, options.cap)
        first, _ = timed(lambda: embedded(url, asked, stops, options.cap))
        timed(generate)  # its first call allocates
        ours, theirs = [], []
        for _ in range(options.rounds):
            ours.append(timed(lambda: embedded(url, asked, stops, options.cap)))
            theirs.append(timed(generate))
    report(dtype, options.cap, [len(ids) for ids in asked], first, ours, theirs)
    return 0


def report(
    dtype: str,
    cap: int,
    lengths: list[int],
    first: float,
    ours: list[tuple[float, Answers]],
    theirs: list[tuple[float, Answers]],
) -> None:
    seconds = {"embedded": [s for s, _ in ours], "transformers": [s for s, _ in theirs]}
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    tokens = {"embedded": ours[0][1], "transformers": theirs[0][1]}
    counts = {name: sum(map(len, answers)) for name, answers in tokens.items()}
    longest = {name: max(map(len, answers)) for name, answers in tokens.items()}
    ratio = medians["transformers"] / medians["embedded"]
    rows = [
        [name, f"{medians[name]:.2f}", str(counts[name]), str(longest[name]), f"{counts[name] / medians[name]:.0f}"]
        for name in medians
    ]
    print(f"{PROMPTS} prompts of {min(lengths)} to {max(lengths)} tokens, {dtype}, greedy, cap {cap}")
    print(table(["second evaluation", "seconds", "tokens", "longest", "tokens/s"], rows))
    print(f"first evaluation, prompts not yet known: {first:.2f} s")
    print(f"ratio {ratio:.2f}, wanted at least {WANTED:g}")
    write(
        "target",
        {"dtype": dtype, "cap": cap, "prompt_tokens": lengths, "first_s": first, "seconds": seconds,
         "tokens": counts, "longest": longest, "ratio": ratio, "wanted": WANTED},
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
