"""A target server that computes nothing: an answer takes as long as its tokens would, and most answers are short.

Its text and its number of tokens depend on the prompt and its deltas alone, so every client gets the same answers.  The
number of tokens is log-normal, cut at the request's limit.  The text ends with the number 1 or 2.

`simulated_target.py --port P [--host H] [--token-s S] [--log FILE]` takes SGLang's other options as well, so a farm can
start it in SGLang's place.  `--log` gets a line for each answer.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import math
import os
import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web

WORDS = "so we first take the total of all parts and then look again at what"
ROUTES = ("/health", "/server_info", "/model_info")
STOP = 2  # the token that ends an answer
MEDIAN, SIGMA = 60.0, 1.0  # of the number of tokens, and of its logarithm


@dataclass(frozen=True)
class Simulation:
    token_s: float
    """Seconds for a token."""
    model: str
    log: Path | None


def name_of(asked: dict[str, Any]) -> str:
    """What determines the answer to a request of /generate.  Deltas that are all zero change nothing."""
    steering = asked["sampling_params"].get("custom_params") or {}
    return json.dumps([asked["input_ids"], steering if any(steering.get("deltas", ())) else None])


def answer_to(asked: dict[str, Any]) -> tuple[int, str]:
    """The number of tokens of the answer to a request of /generate, and its text."""
    drawn = random.Random(hashlib.sha256(name_of(asked).encode()).digest())
    length = round(drawn.lognormvariate(math.log(MEDIAN), SIGMA))
    words = drawn.choices(WORDS.split(), k=min(length, 50))
    text = f"{' '.join(words)}. The answer is {drawn.randint(1, 2)}."
    return max(1, min(int(asked["sampling_params"]["max_new_tokens"]), length)), text


def make_app(simulation: Simulation) -> web.Application:
    async def generate(request: web.Request) -> web.Response:
        asked = await request.json()
        length, text = answer_to(asked)
        await asyncio.sleep(length * simulation.token_s)
        note(simulation, asked)
        meta = {
            "prompt_tokens": len(asked["input_ids"]),
            "completion_tokens": length + 1,
            "cached_tokens": 0,
            "finish_reason": {"type": "stop", "matched": STOP},
        }
        return web.json_response({"text": text, "output_ids": [5] * length + [STOP], "meta_info": meta})

    async def report(request: web.Request) -> web.Response:
        return web.json_response({"model_path": simulation.model, "version": "1"})

    app = web.Application(client_max_size=2**24)
    app.add_routes([web.post("/generate", generate), *(web.get(path, report) for path in ROUTES)])
    return app


def note(simulation: Simulation, asked: dict[str, Any]) -> None:
    """Append a line to the log."""
    if simulation.log is not None:
        asked_for = [name_of(asked), asked["sampling_params"]["max_new_tokens"]]
        name = hashlib.sha256(json.dumps(asked_for).encode()).hexdigest()
        with simulation.log.open("a") as log:
            log.write(json.dumps({"sha256": name, "at": time.time(), "status": 200}) + "\n")


def serve(simulation: Simulation, port: int, host: str) -> None:
    """Answer until the process ends.

    A gpu worker that starts this in SGLang's place names a Unix socket, and holds the port itself.
    """
    path = os.environ.get("WHETSTONE_TARGET_SOCKET")
    address: dict[str, Any] = {"path": path} if path else {"host": host, "port": port}
    web.run_app(make_app(simulation), **address, print=None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--model-path", default="simulated")
    parser.add_argument("--token-s", type=float, default=0.0)
    parser.add_argument("--log", type=Path)
    options, _ = parser.parse_known_args()
    simulation = Simulation(options.token_s, options.model_path, options.log)
    serve(simulation, options.port, options.host)


if __name__ == "__main__":
    main()
