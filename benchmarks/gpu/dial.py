"""The length dial of a finished run at several settings, on the run's test set: mean tokens and right answers.

One server with the run's settings.  The requests of a setting carry the dial and no deltas, as those of a user do; the
steering plugin interpolates.  The run's own processor_dial.py writes the files that it needs.  The row "no steering"
has the dial's system prompt; the run's report has the model without it.  Each setting asks the test set once more, so
nothing may be chosen by the result.
`python benchmarks/gpu/dial.py --run OUTPUT --folder WORK [--set SGLANG_ARGS=...]`
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks import figures
from benchmarks.gpu import common
from orchestrator.runs.setup import choose_examples
from orchestrator.settings import load_settings
from orchestrator.settings.run import make_run
from tasks.dial import DIAL_FILE, Dial
from tasks.gpu.answer import PromptBatch, min_new_tokens, prompt_batch, requests_for
from tasks.gpu.target import Generated, GenerateRequest, parse_generate_reply, request_body, to_generated
from tasks.judging.grader import Grader, ThreeStages, make_grader
from tasks.models import Example, Judge, Target
from tasks.validation import parse_json
from workers.embedded.endpoint.rules import verdict
from workers.sglang.host import LocalTargetHost
from workers.steering.request import reference_string


def read_dial(run: Path) -> Dial:
    document = json.loads((run / DIAL_FILE).read_text("utf-8"))
    del document["front"]  # it is computed of the rest
    return parse_json(Dial, json.dumps(document))


def by_rules(settings: Judge) -> Grader:
    """The three stages, with the rules of the embedded endpoint in the place of the language model."""
    print("the judge of this run may ask a language model: the rules of the embedded endpoint take its place here")
    return ThreeStages(settings, lambda system, user, *_: verdict.answer(system, user), "rules")


def ask(
    http: httpx.Client, requests: list[GenerateRequest], params: dict[str, Any] | None, concurrency: int
) -> list[Generated]:
    """The answers to all requests with these parameters for the plugin; None steers nothing."""

    def one(request: GenerateRequest) -> Generated:
        sent = request_body(request, "")
        if params is not None:
            sent["sampling_params"]["custom_params"] = params
            sent["custom_logit_processor"] = reference_string()
        response = http.post("/generate", json=sent)
        response.raise_for_status()
        return to_generated(parse_generate_reply(str(http.base_url), response.text), request.stop_token_ids)

    with ThreadPoolExecutor(concurrency) as pool:
        return list(pool.map(one, requests))


def measure(
    options: argparse.Namespace, judge: Judge, dial: Dial, target: Target, examples: list[Example]
) -> list[dict[str, Any]]:
    host = LocalTargetHost(options.folder, "dial", dict(os.environ))
    file, labels = options.run / "processor_dial.py", host.labels_folder()
    subprocess.run([sys.executable, file, "--plugin", labels], check=True, stdout=subprocess.DEVNULL)
    grader = make_grader(options.judge or judge.name, lambda: by_rules(judge))
    try:
        url, key = host.serve(target), host.api_key(target)
        questions = tuple((example.id, example.context, example.question) for example in examples)
        batch: PromptBatch = prompt_batch(
            host.model_folder(target), target.system_prompt, target.prompt_template, questions
        )
        requests = requests_for(target, "", (), batch, dict.fromkeys(range(len(batch.ids)), ""))
        # The server closes connections that are idle for some seconds, as they are while answers are graded.
        limits = httpx.Limits(max_connections=options.concurrency, keepalive_expiry=1)
        with common.client(url, key, target.request_timeout_s, limits) as http:
            ask(http, requests, None, options.concurrency)  # kernels compile, prompts become known
            found = [setting(http, requests, None, dial, grader, examples, options)]
            for one in options.dials:
                least = min_new_tokens(target.sampling, dial.deltas_at(one))
                steered = [dataclasses.replace(request, min_new_tokens=least) for request in requests]
                found.append(setting(http, steered, one, dial, grader, examples, options))
            return found
    finally:
        host.close()


def setting(
    http: httpx.Client,
    requests: list[GenerateRequest],
    dial: float | None,
    front: Dial,
    grader: Grader,
    examples: list[Example],
    options: argparse.Namespace,
) -> dict[str, Any]:
    """What one setting gives; None is the dial's system prompt without steering."""
    started = time.perf_counter()
    params = None if dial is None else {"front": front.front, "dial": dial}
    answers = ask(http, requests, params, options.concurrency)
    seconds = time.perf_counter() - started
    tokens = [answer.completion_tokens for answer in answers]
    right = sum(
        grader.grade(example.question, example.gold, answer.text).is_correct
        for example, answer in zip(examples, answers, strict=True)
    )
    longest, shortest = front.knots[0].mean_tokens, front.knots[-1].mean_tokens
    return {
        "dial": dial,
        "interpolated": None if dial is None else longest + dial * (shortest - longest),
        "mean_tokens": sum(tokens) / len(tokens),
        "right": right,
        "n": len(tokens),
        "seconds": seconds,
        "tokens": tokens,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, required=True, help="the output folder of a finished run")
    parser.add_argument("--folder", type=Path, required=True, help="takes logs and labels; emptied first")
    parser.add_argument("--questions", choices=["test", "validation"], default="test")
    parser.add_argument("--dials", type=float, nargs="+", default=[0.0, 0.25, 0.5, 0.75, 1.0])
    parser.add_argument("--concurrency", type=int, default=256, help="requests in flight")
    parser.add_argument("--judge", default="", help="exact_number, or module:function; that of the run")
    parser.add_argument("--set", action="append", default=[], dest="overrides", help="NAME=VALUE of a setting")
    options = parser.parse_args()
    options.run, options.folder = options.run.resolve(), common.fresh(options.folder)
    dial = read_dial(options.run)
    settings = load_settings(options.run / "config", options.overrides)
    examples = choose_examples(settings)[options.questions]
    run = make_run(settings, "dial")
    target = dataclasses.replace(run.target, system_prompt=dial.system_prompt)
    found = measure(options, run.judge, dial, target, examples)
    rows = [
        [
            "no steering" if one["dial"] is None else f"{one['dial']:g}",
            "" if one["interpolated"] is None else f"{one['interpolated']:.1f}",
            f"{one['mean_tokens']:.1f}",
            f"{one['right']} of {one['n']}",
        ]
        for one in found
    ]
    print(figures.table(["dial", "tokens by interpolation", f"tokens on {options.questions}", "right"], rows))
    means = [one["mean_tokens"] for one in found[1:]]
    print(
        "tokens fall at each setting"
        if means == sorted(set(means), reverse=True)
        else "tokens do not fall at each setting"
    )
    command = " ".join(["python", *sys.argv])
    about = {"command": command, "gpus": common.gpus(), "target": dataclasses.asdict(target)}
    figures.write("gpu_dial", {**about, "dial": dial.document(), "found": found})


if __name__ == "__main__":
    main()
