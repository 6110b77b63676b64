"""Serving on a card: chat completions without any parameters are steered, and all ways give the same tokens.

    python benchmarks/gpu/serving.py --model FOLDER --folder WORK

A system with clusters at random, whose end of a turn is raised after sentence ends, is exported as
`orchestrator export --to sglang-server` does, and three servers are started with it.  On the first the plugin steers:
chat completions are compared with /generate, and with those of clients that want no steering.  In the second the plugin
is not loaded: a generated file steers, on SGLang's own path for processors.  The third is the embedded server, on the
CPU.  Two ways differ where two logits are equal but for rounding, so shares are reported.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shlex
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks import figures
from benchmarks.gpu.common import SYSTEM_PROMPT, TEMPLATE, fresh
from orchestrator.evolve.systems import System
from orchestrator.export.targets import SYSTEM_FILE, TARGETS, ExportedSteering, files_beside, system_text
from tasks.common.text import fill
from tasks.gpu.clustering.vocabulary import classify_tokens, sentence_ends
from tasks.gpu.model_files import model_hashes, reference
from tasks.gpu.processor import ModelCheck
from tasks.gpu.prompt import answer_ends, load_tokenizer, render
from tasks.gpu.target import PROCESSOR
from tasks.questions import load_examples
from workers.processes import ChildProcess, Command, is_healthy
from workers.sglang.engines import KEY_VARIABLE
from workers.steering.serving import SYSTEM_VARIABLE

CLUSTERING = "0123456789abcdef"
ARGUMENTS = (
    "--attention-backend triton --sampling-backend pytorch --mem-fraction-static 0.5 "
    "--dtype float32 --enable-deterministic-inference"
)
CLUSTERS = 12
PROCESSORS = "--disable-overlap-schedule --enable-custom-logit-processor"
IN_FLIGHT = 64


def export(model: str, folder: Path, end: float) -> ExportedSteering:
    """Write the system, its labels, the plugin and a generated file; small deltas, which leave text readable."""
    tokenizer = load_tokenizer(model)
    vocabulary, ends, numbers = classify_tokens(tokenizer)
    labels = np.random.default_rng(7).integers(2, CLUSTERS, len(vocabulary)).astype(np.uint8)
    labels[sorted(numbers)] = 1
    labels[sorted(ends)] = 0
    deltas = (end, *(0.3 if cluster % 2 else -0.3 for cluster in range(1, CLUSTERS)))
    system = System("", "vector", SYSTEM_PROMPT, deltas=deltas, clustering=CLUSTERING)
    asked = {"model": model, "template": TEMPLATE, "temperature": 0.0, "max_tokens": 64}
    steering = ExportedSteering(system, ModelCheck(model, **model_hashes(model)), asked, labels, sentence_ends(model))
    texts = {SYSTEM_FILE: system_text(steering), "processor.py": TARGETS["sglang"].render(steering, "processor")}
    for name, content in {**files_beside(steering), **{name: text.encode() for name, text in texts.items()}}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return steering


@contextmanager
def serve(folder: Path, name: str, module: str, arguments: Sequence[str], **variables: str) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = (sys.executable, "-m", module, *arguments, "--port", str(port))
    server = ChildProcess(Command(name, command, folder / f"{name}.log", {**os.environ, **variables}))
    server.start()
    try:
        server.wait_ready(lambda: is_healthy(f"http://127.0.0.1:{port}", 30), 500)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.stop(5)


async def post_all(url: str, bodies: Sequence[dict[str, Any]]) -> list[Any]:
    timeout, connector = aiohttp.ClientTimeout(total=900), aiohttp.TCPConnector(limit=IN_FLIGHT)
    headers = {"Authorization": "Bearer key"}
    async with aiohttp.ClientSession(timeout=timeout, connector=connector, headers=headers) as http:

        async def one(body: dict[str, Any]) -> Any:
            async with http.post(url, json=body) as reply:
                assert reply.status == 200, await reply.text()
                return await reply.json()

        return await asyncio.gather(*map(one, bodies))


def chat(url: str, questions: Sequence[str], new: int, **given: Any) -> list[str]:
    fixed = {"model": "default", "temperature": 0, "max_tokens": new, **given}
    bodies = [{"messages": [{"role": "user", "content": text}], **fixed} for text in questions]
    return [
        reply["choices"][0]["message"]["content"]
        for reply in asyncio.run(post_all(f"{url}/v1/chat/completions", bodies))
    ]


def generate(
    url: str, prompts: Sequence[Sequence[int]], new: int, stops: Sequence[int], processor: str, params: dict[str, Any]
) -> list[dict[str, Any]]:
    """`output_ids` and `text` of each answer."""
    sampling = {"temperature": 0, "max_new_tokens": new, "stop_token_ids": list(stops), "custom_params": params}
    fixed = {"sampling_params": sampling, "custom_logit_processor": processor}
    return asyncio.run(post_all(f"{url}/generate", [{"input_ids": list(prompt), **fixed} for prompt in prompts]))


def equal(first: Sequence[Any], second: Sequence[Any]) -> int:
    return sum(a == b for a, b in zip(first, second, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="a folder")
    parser.add_argument("--folder", type=Path, required=True, help="takes the export and logs; emptied first")
    parser.add_argument("--data", type=Path, default=Path("configs/data/sample.jsonl"))
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--new", type=int, default=128, help="new tokens of an answer at most")
    parser.add_argument("--end", type=float, default=8.0, help="the delta of the end of a turn")
    parser.add_argument("--args", default=ARGUMENTS, help="arguments of SGLang")
    options = parser.parse_args()
    folder, model = fresh(options.folder), str(options.model.resolve())
    steering, deploy = export(model, folder / "deploy", options.end), str(folder / "deploy")
    tokenizer, examples = load_tokenizer(model), load_examples(options.data)[: options.rows]
    questions = [fill(TEMPLATE, {"context": one.context, "query": one.question}) for one in examples]
    prompts = [render(tokenizer, SYSTEM_PROMPT, TEMPLATE, one.context, one.question) for one in examples]
    stops, new = tuple(sorted(answer_ends(tokenizer))), options.new
    params = {"clustering": CLUSTERING, "deltas": list(steering.system.deltas), "end": "sentence"}
    arguments = ["--model-path", model, "--host", "127.0.0.1", *shlex.split(options.args)]
    system = {SYSTEM_VARIABLE: f"{deploy}/{SYSTEM_FILE}"}
    path = os.pathsep.join([deploy, os.environ.get("PYTHONPATH", "")])

    with serve(folder, "overlap", "sglang.launch_server", arguments, PYTHONPATH=path, **system) as url:
        served, plain = chat(url, questions, new), chat(url, questions, new, custom_params={})
        grammar = chat(url, questions[:4], new, regex="yes|no")
        plugin = generate(url, prompts, new, stops, PROCESSOR, params)
    unloaded = {"SGLANG_PLUGINS": "none", "WHETSTONE_LABELS": deploy, "PYTHONPATH": path}
    with serve(folder, "processors", "sglang.launch_server", [*arguments, *shlex.split(PROCESSORS)], **unloaded) as url:
        found = {"generated file": generate(url, prompts, new, stops, reference("processor"), {})}
    embedded = ["--model", model, "--labels", deploy, "--dtype", "float32", "--rows", "16"]
    with serve(folder, "embedded", "workers.embedded.target", embedded, **{KEY_VARIABLE: "key"}) as url:
        found["embedded server"] = generate(url, prompts, new, stops, PROCESSOR, params)

    ids = [answer["output_ids"] for answer in plugin]
    same = {name: equal(ids, [answer["output_ids"] for answer in answers]) for name, answers in found.items()}
    result = {
        "questions": len(prompts), "chat completions equal to /generate": equal(served, [a["text"] for a in plugin]),
        "chat completions equal without steering": equal(served, plain), "with a grammar": grammar,
        "answers equal to the plugin's": same,
    }  # fmt: skip
    print(figures.table(["compared with the plugin", f"equal of {len(ids)}"], [[n, str(c)] for n, c in same.items()]))
    print({name: value for name, value in result.items() if name != "answers equal to the plugin's"})
    figures.write("gpu_serving", {"command": " ".join(["python", *sys.argv]), "model": options.model.name, **result})


if __name__ == "__main__":
    main()
