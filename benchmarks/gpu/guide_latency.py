"""How long answers of `guide` take: whole candidates at some numbers in flight, and a reflection prompt's first token.

Candidates: tickets in the project's prompt, one sample each, so many in flight all the time.  Reflection: the prompts
that one batch of each mission makes, streamed one at a time on an idle server, once new and once more (with the
prefix in the server's cache).  Nothing else may use the card meanwhile.

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
from benchmarks.gpu.guide_asking import Asking, add_server_options, open_asking
from benchmarks.gpu.guide_direct import DirectAnswers
from benchmarks.gpu.guide_flipped import BATCH, FlippedUnit, propose_on, setup_of
from benchmarks.gpu.guide_judging import generated, plan_of
from benchmarks.gpu.guide_prompts import FORMS, experiences_of, messages_for
from benchmarks.gpu.guide_runs import overrides_of, run_settings
from benchmarks.gpu.guide_tickets import SHAPES
from orchestrator.guide.tickets.missions import PLANS
from tasks.gpu.target import GenerateRequest, request_body
from tasks.guide.decoding import DecodeCell
from tasks.guide.experiences import first_guidance
from tasks.guide.prompting import PromptForm
from tasks.http.address import http_url, unix_path

CELL = DecodeCell(0.7, 0.95, 128)


async def _post(http: aiohttp.ClientSession, url: str, request: GenerateRequest) -> tuple[float, float]:
    """Seconds to the first bytes of a streamed answer, and to its end."""
    body = request_body(request, "") | {"stream": True}
    started = time.perf_counter()
    first = 0.0
    async with http.post(http_url(url, "/generate"), json=body) as reply:
        reply.raise_for_status()
        async for _ in reply.content.iter_any():
            first = first or time.perf_counter() - started
    return first, time.perf_counter() - started


async def _timed(asking: Asking, requests: Sequence[GenerateRequest], in_flight: int) -> list[tuple[float, float]]:
    path = unix_path(asking.url)
    connector = aiohttp.UnixConnector(path, limit=0) if path else aiohttp.TCPConnector(limit=0)
    headers = {"Authorization": f"Bearer {asking.api_key}"} if asking.api_key else {}
    limit = asyncio.Semaphore(in_flight)
    timeout = aiohttp.ClientTimeout(total=300)
    async with aiohttp.ClientSession(connector=connector, headers=headers, timeout=timeout) as http:

        async def one(request: GenerateRequest) -> tuple[float, float]:
            async with limit:
                return await _post(http, asking.url, request)

        return list(await asyncio.gather(*(one(request) for request in requests)))


def timed(asking: Asking, requests: Sequence[GenerateRequest], in_flight: int) -> list[tuple[float, float]]:
    """For each request the seconds to its first bytes and to its end, `in_flight` at once."""
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


def latency_row(name: str, found: Mapping[str, Mapping[str, float]]) -> list[str]:
    first, whole = found["first"], found["whole"]
    cells = [f"{1000 * one[key]:.0f}" for one in (first, whole) for key in ("median", "p95")]
    return [name, f"{first['count']:.0f}", *cells]


HEAD = ("what", "number", "first ms", "95th", "whole ms", "95th")


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

        def keep(name: str, times: Sequence[tuple[float, float]], seconds: float) -> None:
            firsts, wholes = [first for first, _ in times], [whole for _, whole in times]
            found[name] = {"first": summary(firsts), "whole": summary(wholes), "seconds": seconds}
            write(options, version, found)
            print(f"{name}: median {1000 * found[name]['whole']['median']:.0f} ms", flush=True)

        requests = candidate_requests(asking, options.shape, options.prompt, options.candidates, options.seed)
        timed(asking, requests[:16], 16)
        for in_flight in options.in_flights:
            started = time.perf_counter()
            times = timed(asking, requests, in_flight)
            keep(f"candidates, {in_flight} in flight", times, time.perf_counter() - started)
        if proposals := reflection_requests(asking, options):
            with common.client(asking.url, asking.api_key) as http:
                http.post("/flush_cache")
            for name in ("reflection, new", "reflection, again"):
                started = time.perf_counter()
                keep(name, timed(asking, proposals, 1), time.perf_counter() - started)
    print(figures.table(HEAD, [latency_row(name, one) for name, one in found.items()]))
    return 0


def write(options: argparse.Namespace, version: str, found: Mapping[str, Any]) -> None:
    figures.write(
        options.result,
        {
            "command": " ".join(["python", *sys.argv]),
            "gpus": common.gpus(),
            "sglang": version,
            "model": options.model.rstrip("/").rpartition("/")[2],
            "shape": options.shape,
            "latencies": dict(found),
        },
    )


if __name__ == "__main__":
    sys.exit(main())
