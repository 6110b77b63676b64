"""A target server that computes nothing: an answer takes as long as its tokens would, and most answers are short.

The number of tokens depends on the prompt and its deltas alone, so every client gets the same answers.  It is
log-normal, cut at the request's limit: one answer in sixty is that long.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import random
from multiprocessing.synchronize import Event
from typing import Any

from aiohttp import web

MEDIAN, SIGMA = 60.0, 1.0  # of the number of tokens, and of its logarithm


def length_of(asked: dict[str, Any]) -> int:
    """The number of tokens of the answer to a request of /generate."""
    sampling = asked["sampling_params"]
    named = json.dumps([asked["input_ids"], sampling.get("custom_params")])
    drawn = random.Random(hashlib.sha256(named.encode()).digest()).lognormvariate(math.log(MEDIAN), SIGMA)
    return max(1, min(int(sampling["max_new_tokens"]), round(drawn)))


def serve(port: int, token_s: float, rows: int, ready: Event) -> None:
    """Answer until the process ends: `token_s` seconds for a token, `rows` requests at once.

    `ready` is set when the port is open.
    """
    free = asyncio.Semaphore(rows)

    async def generate(request: web.Request) -> web.Response:
        length = length_of(await request.json())
        async with free:
            await asyncio.sleep(length * token_s)
        meta = {
            "prompt_tokens": 1,
            "completion_tokens": length,
            "cached_tokens": 0,
            "finish_reason": {"type": "length"},
        }
        return web.json_response({"text": "x" * length, "output_ids": [5] * length, "meta_info": meta})

    async def report(request: web.Request) -> web.Response:
        return web.json_response({"model_path": "simulated", "version": "1"})

    app = web.Application(client_max_size=2**24)
    app.add_routes([web.post("/generate", generate), *(web.get(path, report) for path in ROUTES)])
    web.run_app(app, host="127.0.0.1", port=port, print=lambda *_: ready.set())


ROUTES = ("/health", "/server_info", "/model_info")
