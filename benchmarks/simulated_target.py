"""A target server that computes nothing: an answer takes as long as its tokens would, and most answers are short.

Its text and its number of tokens depend on the prompt and its deltas alone, so every client gets the same answers.  The
number of tokens is log-normal, cut at the request's limit: by default one answer in sixty is that long.  The text ends
with the number 1 or 2.  `/stats` has the tokens and answers so far, and the requests in flight.

`simulated_target.py --port P [--host H] [--token-s S] [--rows N] [--log FILE] [--hold FILE]` takes SGLang's other
options as well, so a farm can start it in SGLang's place.  While the file of `--hold` exists, requests with the deltas
that it lists (JSON) wait.  `--log` gets a line for each answer, and one with status 102 for each request that waits.
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
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

from aiohttp import web

WORDS = (
    "so",
    "we",
    "first",
    "take",
    "the",
    "total",
    "of",
    "all",
    "parts",
    "and",
    "then",
    "look",
    "again",
    "at",
    "what",
)
ROUTES = ("/health", "/server_info", "/model_info")
STOP = 2  # the token that ends an answer
ANSWERED, HELD = 200, 102


@dataclass(frozen=True)
class Simulation:
    """`token_s` seconds for a token, `rows` requests at once.

    `median` is that of the number of tokens, `sigma` the standard deviation of its logarithm.
    """

    token_s: float = 0.0
    rows: int = 1024
    median: float = 60.0
    sigma: float = 1.0
    model: str = "simulated"
    log: Path | None = None
    hold: Path | None = None


def name_of(asked: dict[str, Any]) -> str:
    """What determines the answer to a request of /generate.  Deltas that are all zero change nothing."""
    steering = asked["sampling_params"].get("custom_params") or {}
    return json.dumps([asked["input_ids"], steering if any(steering.get("deltas", ())) else None])


def answer_to(simulation: Simulation, asked: dict[str, Any]) -> tuple[int, str]:
    """The number of tokens of the answer to a request of /generate, and its text."""
    drawn = random.Random(hashlib.sha256(name_of(asked).encode()).digest())
    length = round(drawn.lognormvariate(math.log(simulation.median), simulation.sigma))
    words = drawn.choices(WORDS, k=min(length, 50))
    text = f"{' '.join(words)}. The answer is {drawn.randint(1, 2)}."
    return max(1, min(int(asked["sampling_params"]["max_new_tokens"]), length)), text


def make_app(simulation: Simulation) -> web.Application:
    free = asyncio.Semaphore(simulation.rows)
    stats = {"tokens": 0, "answers": 0, "in_flight": 0}

    async def generate(request: web.Request) -> web.Response:
        asked = await request.json()
        await wait_while_held(simulation, asked)
        length, text = answer_to(simulation, asked)
        async with free:
            stats["in_flight"] += 1
            try:
                await asyncio.sleep(length * simulation.token_s)
            finally:
                stats["in_flight"] -= 1
        stats["tokens"] += length
        stats["answers"] += 1
        note(simulation, asked, ANSWERED)
        meta = {
            "prompt_tokens": len(asked["input_ids"]),
            "completion_tokens": length + 1,
            "cached_tokens": 0,
            "finish_reason": {"type": "stop", "matched": STOP},
        }
        return web.json_response({"text": text, "output_ids": [5] * length + [STOP], "meta_info": meta})

    async def report(request: web.Request) -> web.Response:
        return web.json_response({"model_path": simulation.model, "version": "1"})

    async def count(request: web.Request) -> web.Response:
        return web.json_response(stats)

    app = web.Application(client_max_size=2**24)
    app.add_routes([web.post("/generate", generate), web.get("/stats", count)])
    app.add_routes([web.get(path, report) for path in ROUTES])
    return app


async def wait_while_held(simulation: Simulation, asked: dict[str, Any]) -> None:
    deltas = (asked["sampling_params"].get("custom_params") or {}).get("deltas")
    is_noted = False
    while (
        simulation.hold is not None and simulation.hold.exists() and json.loads(simulation.hold.read_text()) == deltas
    ):
        if not is_noted:
            note(simulation, asked, HELD)
            is_noted = True
        await asyncio.sleep(0.02)


def note(simulation: Simulation, asked: dict[str, Any], status: int) -> None:
    """Append a line to the log."""
    if simulation.log is not None:
        name = hashlib.sha256(name_of(asked).encode()).hexdigest()
        with simulation.log.open("a") as log:
            log.write(json.dumps({"sha256": name, "at": time.time(), "status": status}) + "\n")


def serve(simulation: Simulation, port: int, host: str = "127.0.0.1", ready: Event | None = None) -> None:
    """Answer until the process ends; `ready` is set when the port is open.

    A gpu worker that starts this in SGLang's place names a Unix socket, and holds the port itself.
    """
    path = os.environ.get("WHETSTONE_TARGET_SOCKET")

    def on_start(*_: object) -> None:
        if ready is not None:
            ready.set()

    address: dict[str, Any] = {"path": path} if path else {"host": host, "port": port}
    web.run_app(make_app(simulation), **address, print=on_start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--model-path", default="simulated")
    parser.add_argument("--token-s", type=float, default=0.0)
    parser.add_argument("--rows", type=int, default=1024)
    parser.add_argument("--log", type=Path)
    parser.add_argument("--hold", type=Path)
    options, _ = parser.parse_known_args()
    simulation = Simulation(options.token_s, options.rows, model=options.model_path, log=options.log, hold=options.hold)
    serve(simulation, options.port, options.host)


if __name__ == "__main__":
    main()
