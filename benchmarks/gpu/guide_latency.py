"""How long answers of `guide` take: whole candidates at some numbers in flight, and a reflection prompt's first token.

Candidates: tickets in the project's prompt, one sample each, so many in flight all the time.  Reflection: the prompts
that one batch of each mission makes, one at a time; answers of one token say when the first one is there.  Nothing else
may use the card meanwhile.

`python benchmarks/gpu/guide_latency.py --model FOLDER --folder WORK --in-flights 64 256`
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks import figures
from benchmarks.gpu import common
from benchmarks.gpu.guide_asking import Asking, add_server_options, open_asking, write_result
from benchmarks.gpu.guide_direct import DirectAnswers
from benchmarks.gpu.guide_flipped import BATCH, FlippedUnit, propose_on, setup_of
from benchmarks.gpu.guide_judging import generated, plan_of
from benchmarks.gpu.guide_prompts import FORMS, experiences_of, messages_for
from benchmarks.gpu.guide_runs import overrides_of, run_settings
from benchmarks.gpu.guide_shapes import SHAPES
from orchestrator.guide.tickets.missions import PLANS
from tasks.gpu.target import GenerateRequest, request_body
from tasks.guide.decoding import DecodeCell
from tasks.guide.experiences import first_guidance
from tasks.guide.prompting import PromptForm
from tasks.http.address import http_url, unix_path

CELL = DecodeCell(0.5, 0.95, 128)


async def _timed(asking: Asking, requests: Sequence[GenerateRequest], in_flight: int) -> list[float]:
    path = unix_path(asking.url)
    connector = aiohttp.UnixConnector(path, limit=0) if path else aiohttp.TCPConnector(limit=0)
    headers = {"Authorization": f"Bearer {asking.api_key}"} if asking.api_key else {}
    limit = asyncio.Semaphore(in_flight)
    timeout = aiohttp.ClientTimeout(total=300)
    async with aiohttp.ClientSession(connector=connector, headers=headers, timeout=timeout) as http:

        async def one(request: GenerateRequest) -> float:
            async with limit:
                started = time.perf_counter()
                async with http.post(http_url(asking.url, "/generate"), json=request_body(request, "")) as reply:
                    reply.raise_for_status()
                    await reply.read()
                return time.perf_counter() - started

        return list(await asyncio.gather(*(one(request) for request in requests)))


def timed(asking: Asking, requests: Sequence[GenerateRequest], in_flight: int) -> list[float]:
    """The seconds of each request, `in_flight` at once."""
    return asyncio.run(_timed(asking, requests, in_flight))


def candidate_requests(asking: Asking, shape: str, prompt: PromptForm, count: int, seed: int) -> list[GenerateRequest]:
    """Samples of tickets of all missions in turn, under the planted rules."""
    by_mission = []
    for mission in range(len(PLANS)):
        plan = plan_of(shape, mission)
        experiences = experiences_of("planted", plan)
        tickets = generated(shape, mission, count - count % 2, seed, "latency")
        by_mission.append(
            [
                asking.request(messages_for(plan, experiences, ticket, prompt), replace(CELL, seed=place))
                for place, ticket in enumerate(tickets)
            ]
        )
    return [request for row in zip(*by_mission, strict=True) for request in row][:count]


def reflection_requests(asking: Asking, options: argparse.Namespace) -> list[GenerateRequest]:
    """What a batch of each mission makes its reflector be asked; those without a proposal make none."""
    found = []
    for mission in range(len(PLANS)):
        options.missions = [mission]
        values = run_settings(
            options,
            Path("none"),
            Path("none"),
            "latency",
            options.seed,
            overrides_of(options),
        )
        unit = FlippedUnit(options.shape, mission, options.seed, "initial", False, 0, 0, options.prompt, "plain", "")
        tickets = generated(options.shape, mission, BATCH, options.seed, "train")
        direct = DirectAnswers(asking)
        guidance = first_guidance(experiences_of("initial", plan_of(options.shape, mission)), "2025-11-03T00:00:00Z")
        direct.drive(propose_on(setup_of(unit, values, tickets, asking.model), guidance))
        found += [request for task, request in direct.asked if task == "gpu.propose"]
    return found


def summary(times: Sequence[float]) -> dict[str, float]:
    """Median, 95th percentile and most of some seconds."""
    ordered = sorted(times)
    return {
        "count": len(ordered),
        "median": statistics.median(ordered),
        "p95": ordered[min(len(ordered) - 1, round(0.95 * (len(ordered) - 1)))],
        "most": ordered[-1],
    }


def latency_row(name: str, found: Mapping[str, float]) -> list[str]:
    return [name, f"{found['count']:.0f}", *(f"{1000 * found[key]:.0f}" for key in ("median", "p95", "most"))]


HEAD = ("what", "number", "median ms", "95th", "most")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_server_options(parser)
    parser.add_argument("--shape", choices=list(SHAPES), default="half", help="of the tickets (half)")
    parser.add_argument("--prompt", choices=FORMS, default="plain", help="sampler.prompt (plain)")
    parser.add_argument("--in-flights", type=int, nargs="+", default=[64, 128, 256], help="requests at once, in turn")
    parser.add_argument("--candidates", type=int, default=1024, help="answers for each of them (1024)")
    parser.add_argument("--seed", type=int, default=31)
    parser.add_argument("--set", action="append", default=[], help="a setting, as section.key=VALUE")
    parser.add_argument("--result", default="gpu_guide_latency", help="written to benchmarks/results/RESULT.json")
    options = parser.parse_args()
    options.cap = 128
    found: dict[str, dict[str, Any]] = {}
    with open_asking(options) as (asking, version):

        def keep(name: str, asked: Sequence[GenerateRequest], in_flight: int) -> None:
            found[name] = summary(timed(asking, asked, in_flight))
            write_result(options, version, latencies=dict(found))
            print(f"{name}: median {1000 * found[name]['median']:.0f} ms", flush=True)

        requests = candidate_requests(asking, options.shape, options.prompt, options.candidates, options.seed)
        timed(asking, requests[:16], 16)
        for in_flight in options.in_flights:
            keep(f"candidates, {in_flight} in flight", requests, in_flight)
        if proposals := reflection_requests(asking, options):
            first_tokens = [replace(request, max_new_tokens=1) for request in proposals]
            with common.client(asking.url, asking.api_key) as http:
                http.post("/flush_cache")
            keep("reflection, first token of a new prompt", first_tokens, 1)
            keep("reflection, first token once more", first_tokens, 1)
            keep("reflection, whole reply", proposals, 1)
    print(figures.table(HEAD, [latency_row(name, one) for name, one in found.items()]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
