"""Asking the target: answers are kept as they arrive, and a server that went away is asked for the rest."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
from scripted_server import GOOD, request_of, server

from tasks.gpu import host
from tasks.gpu.host import ask_target
from tasks.gpu.target import Generated, TargetDown
from tasks.records import Sampling, Target

TARGET = Target(
    model="m", engine="sglang", lifecycle="resident", url="", command="", args="", device="cpu", dtype="auto",
    ready_timeout_s=10, request_timeout_s=10, concurrency=1, system_prompt="", prompt_template="{context}{query}",
    sampling=Sampling(4, 0.0, 1.0, 7),
)  # fmt: skip
REQUESTS = {name: request_of(input_ids=(number,)) for number, name in enumerate("abc")}


class Host:
    """A target host with servers that a test started: each call of `serve` names the next one."""

    def __init__(self, *urls: str) -> None:
        self.urls = list(urls)
        self.calls = 0

    def serving(self, target: Target) -> AbstractContextManager[None]:
        return nullcontext()

    def serve(self, target: Target, *_: object) -> str:
        self.calls += 1
        return self.urls[min(self.calls, len(self.urls)) - 1]

    def api_key(self, target: Target) -> str | None:
        return "a-key"


def serve(*urls: str) -> Any:
    return Host(*urls)


def test_a_new_server_is_asked_only_for_the_rest() -> None:
    """Given a server that dies after its first answer, its successor is asked for the other two."""
    answers: dict[str, Generated] = {}
    with (
        server(lambda n, _: (200, GOOD) if n == 1 else (0, None)) as (first, _),
        server(lambda *_: (200, GOOD)) as (
            second,
            seen,
        ),
    ):
        installed = serve(first, second)
        ask_target(installed, TARGET, REQUESTS, answers.__setitem__)
    assert set(answers) == set("abc") and installed.calls == 2
    assert [request["input_ids"] for request in seen] == [[1], [2]]


def test_a_server_that_dies_without_an_answer_is_given_up_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "NO_ANSWER_S", 0.0)
    with server(lambda *_: (0, None)) as (url, _), pytest.raises(TargetDown):
        ask_target(serve(url), TARGET, REQUESTS, lambda *_: None)


def test_a_refused_request_is_not_repeated() -> None:
    refused = {"error": {"message": "too long"}}
    with server(lambda *_: (400, refused)) as (url, seen), pytest.raises(RuntimeError, match="too long"):
        ask_target(serve(url), TARGET, {"a": REQUESTS["a"]}, lambda *_: None)
    assert len(seen) == 1
