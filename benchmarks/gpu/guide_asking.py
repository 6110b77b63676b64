"""Asking a server for the answers to many prompts of `guide`, from several processes, without farm and store."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import httpx

from benchmarks import figures
from benchmarks.gpu import common
from tasks.gpu.prompt import TOKENIZER_LOCK, load_tokenizer, render_chat, stop_ids
from tasks.gpu.target import Generated, GenerateRequest, TargetClient
from tasks.guide.decoding import DecodeCell
from tasks.guide.jobs import Messages

TIMEOUT_S = 300
URL_VARIABLE, ARGUMENTS_VARIABLE = "WHETSTONE_GUIDE_URL", "WHETSTONE_GUIDE_ARGUMENTS"
LOOK_S = 0.2

Unit = TypeVar("Unit")
Found = TypeVar("Found")


@dataclass(frozen=True)
class Asking:
    """A server and its model's folder.  `concurrency` bounds the requests in flight of one process."""

    url: str
    model: str
    concurrency: int
    api_key: str | None = None

    def request(
        self, messages: Messages, cell: DecodeCell, regex: str | None = None, json_schema: str | None = None
    ) -> GenerateRequest:
        """One answer to messages.  The cell has the seed of this sample."""
        prompt, stops = _encoded(self.model, messages)
        return GenerateRequest(
            prompt, cell.max_new_tokens, cell.temperature, cell.top_p, cell.seed or 0, stops,
            stop=cell.stop, regex=regex, json_schema=json_schema,
        )  # fmt: skip

    def generate(self, requests: Sequence[GenerateRequest]) -> list[Generated]:
        """The answers, in the order of the requests."""
        found: dict[int, Generated] = {}
        TargetClient(self.url, TIMEOUT_S, self.concurrency, self.api_key).generate_many(requests, found.__setitem__)
        return [found[index] for index in range(len(requests))]

    def answers(self, asked: Sequence[tuple[Messages, DecodeCell]]) -> list[Generated]:
        """The answers in the order of what is asked.  A cell has the seed of its one sample."""
        return self.generate([self.request(messages, cell) for messages, cell in asked])


@lru_cache(maxsize=4096)
def _encoded(model: str, messages: Messages) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The token ids of a prompt, and those that end the answer."""
    with TOKENIZER_LOCK:
        tokenizer = load_tokenizer(model)
        return tuple(render_chat(tokenizer, *messages)), _stops(model)


@lru_cache(maxsize=4)
def _stops(model: str) -> tuple[int, ...]:
    return stop_ids(load_tokenizer(model))


def add_server_options(parser: argparse.ArgumentParser) -> None:
    """A server that runs already, or how to start one; and how many processes ask it how much at once."""
    parser.add_argument("--model", default="embedded", help="a folder, or embedded (embedded)")
    parser.add_argument(
        "--url",
        default=os.environ.get(URL_VARIABLE, ""),
        help=f"of a server that runs already ({URL_VARIABLE}); its key is in SGLANG_API_KEY",
    )
    parser.add_argument("--engine", choices=["sglang", "embedded"], default="sglang")
    parser.add_argument("--command", default=common.SGLANG, help="the command that starts SGLang")
    parser.add_argument(
        "--args",
        default=os.environ.get(ARGUMENTS_VARIABLE),
        help=f"further arguments of the server (SGLang: {common.ARGUMENTS!r})",
    )
    parser.add_argument("--folder", type=Path, required=True, help="takes the server's log")
    parser.add_argument("--processes", type=int, default=8, help="that ask (8)")
    parser.add_argument("--in-flight", type=int, default=512, help="requests at once, of all processes (512)")


def end_on_sigterm() -> None:
    """SIGTERM ends this process as sys.exit does, so that farms and servers of it are ended too."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


@contextmanager
def open_asking(options: argparse.Namespace) -> Iterator[tuple[Asking, str]]:
    """How to ask the server, and its version.  `options.cap` is that of whole answers, in new tokens."""
    options.folder.mkdir(parents=True, exist_ok=True)
    options.folder = options.folder.resolve()
    each = max(1, options.in_flight // options.processes)
    model = common.model_folder(options)
    if options.url:
        key = os.environ.get("SGLANG_API_KEY")
        with common.client(options.url, key) as http:
            yield Asking(options.url, model, each, key), common.server_version(http)
        return
    with common.open_server(options, common.target_of(options, each)) as (url, key):
        with common.client(url, key) as http:
            version = common.server_version(http)
        yield Asking(url, model, each, key), version


class BusyWatch:
    """Looks at how many requests a server holds, running or waiting, while the block runs."""

    def __init__(self, asking: Asking) -> None:
        self.samples: list[int] = []
        self._asking, self._stopping = asking, threading.Event()
        self._thread = threading.Thread(target=self._watch, name="busy", daemon=True)

    def __enter__(self) -> BusyWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def found(self) -> dict[str, float | int | None]:
        """The share of looks with requests, and their mean number, between the first and the last request."""
        seen = [place for place, count in enumerate(self.samples) if count]
        span = self.samples[seen[0] : seen[-1] + 1] if seen else []
        return {
            "looks": len(span),
            "busy": sum(count > 0 for count in span) / len(span) if span else None,
            "mean_in_flight": sum(span) / len(span) if span else None,
        }

    def _watch(self) -> None:
        with common.client(self._asking.url, self._asking.api_key) as http:
            while not self._stopping.wait(LOOK_S):
                with suppress(httpx.HTTPError, KeyError, ValueError, TypeError):
                    self.samples.append(in_flight(http))


def in_flight(http: httpx.Client) -> int:
    """Requests in a server, running or waiting."""
    reply = http.get("/v1/loads", params={"include": "core"})
    loads = reply.json()["loads"] if reply.status_code == 200 else [http.get("/server_info").json()]
    return sum(int(load["num_running_reqs"]) + int(load["num_waiting_reqs"]) for load in loads)


def spread(
    work: Callable[[Asking, Unit], Found], asking: Asking, units: Sequence[Unit], processes: int
) -> Iterator[tuple[Unit, Found]]:
    """Each unit with what `work`, a function of a module, found of it, as they end."""
    if processes == 1:
        yield from ((unit, work(asking, unit)) for unit in units)
        return
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        doing = {pool.submit(work, asking, unit): unit for unit in units}
        try:
            for done in as_completed(doing):
                yield doing[done], done.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def write_result(options: argparse.Namespace, version: str, **found: Any) -> None:
    """benchmarks/results/RESULT.json: what was found, and the command, the cards, the server and the tickets of it."""
    tickets = {name: getattr(options, name) for name in ("shape", "prompt", "wording") if hasattr(options, name)}
    figures.write(
        options.result,
        {
            "command": " ".join(["python", *sys.argv]),
            "gpus": common.gpus(),
            "sglang": version,
            "arguments": common.server_arguments(options),
            "model": options.model.rstrip("/").rpartition("/")[2],
            **tickets,
            **found,
        },
    )
