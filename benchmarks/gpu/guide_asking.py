"""Asking a server for the answers to many prompts of `guide`, from several processes, without farm and store."""

from __future__ import annotations

import argparse
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from benchmarks.gpu import common
from tasks.gpu.prompt import load_tokenizer, render_chat, stop_ids
from tasks.gpu.target import Generated, GenerateRequest, TargetClient
from tasks.guide.decoding import DecodeCell
from tasks.guide.jobs import Messages

TIMEOUT_S = 300
URL_VARIABLE = "WHETSTONE_GUIDE_URL"

Unit = TypeVar("Unit")
Found = TypeVar("Found")


@dataclass(frozen=True)
class Asking:
    """A server and its model's folder.  `concurrency` bounds the requests in flight of one process."""

    url: str
    model: str
    concurrency: int
    api_key: str | None = None

    def answers(self, asked: Sequence[tuple[Messages, DecodeCell]]) -> list[Generated]:
        """The answers in the order of what is asked.  A cell has the seed of its one sample."""
        tokenizer = load_tokenizer(self.model)
        stops = stop_ids(tokenizer)
        prompts: dict[Messages, tuple[int, ...]] = {}
        requests = []
        for messages, cell in asked:
            if messages not in prompts:
                prompts[messages] = tuple(render_chat(tokenizer, *messages))
            prompt, seed = prompts[messages], cell.seed or 0
            requests.append(
                GenerateRequest(prompt, cell.max_new_tokens, cell.temperature, cell.top_p, seed, stops, stop=cell.stop)
            )
        found: dict[int, Generated] = {}
        TargetClient(self.url, TIMEOUT_S, self.concurrency, self.api_key).generate_many(requests, found.__setitem__)
        return [found[index] for index in range(len(requests))]


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
    parser.add_argument("--args", default=None, help=f"further arguments of the server (SGLang: {common.ARGUMENTS!r})")
    parser.add_argument("--folder", type=Path, required=True, help="takes the server's log")
    parser.add_argument("--processes", type=int, default=8, help="that ask (8)")
    parser.add_argument("--in-flight", type=int, default=512, help="requests at once, of all processes (512)")


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
