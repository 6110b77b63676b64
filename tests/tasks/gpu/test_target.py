"""The client of /generate against a server that misbehaves as told."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tasks.gpu.target import Generated, GenerateRequest, TargetClient, TargetDown, TargetRefused, body, generated

Script = Callable[[int, dict[str, Any]], tuple[int, Any]]


@contextmanager
def server(script: Script) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A server that answers its n-th request, counted from 1, with the script's status and JSON; 0 hangs up."""
    seen: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            seen.append(asked | {"authorization": self.headers.get("Authorization")})
            status, reply = script(len(seen), asked)
            if status == 0:
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(reply).encode())

        def log_message(self, *_: object) -> None:
            """Nothing on stderr."""

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=running.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{running.server_port}", seen
    finally:
        running.shutdown()
        running.server_close()
        thread.join()


def _reply(ids: list[int], reason: dict[str, Any]) -> dict[str, Any]:
    meta = {"finish_reason": reason, "prompt_tokens": 2, "completion_tokens": len(ids), "cached_tokens": 1}
    return {"text": "x", "output_ids": ids, "meta_info": meta}


GOOD = _reply([5, 2], {"type": "stop", "matched": 2})


def _request(**changes: Any) -> GenerateRequest:
    fields: dict[str, Any] = {
        "input_ids": (1, 2), "max_new_tokens": 4, "temperature": 0.0, "top_p": 1.0, "seed": 7, "stop_token_ids": (2,),
    }  # fmt: skip
    return GenerateRequest(**fields | changes)


def _ask(url: str, requests: list[GenerateRequest], retry_s: float = 5.0, **client: Any) -> dict[int, Generated]:
    found: dict[int, Generated] = {}
    TargetClient(url, 10, 4, retry_s=retry_s, **client).generate_many(requests, found.__setitem__)
    return found


@pytest.mark.parametrize("status", [0, 500, 503])
def test_a_hiccup_is_tried_again_under_another_id(status: int) -> None:
    with server(lambda count, _: (200, GOOD) if count == 2 else (status, {})) as (url, seen):
        found = _ask(url, [_request(rid="r")])
    assert found[0].output_ids == (5,) and found[0].completion_tokens == 1
    assert [asked["rid"] for asked in seen] == ["r", "r-2"]


def test_a_server_that_stays_down_is_said_to_be_down() -> None:
    with server(lambda *_: (500, {"error": {"message": "out of memory"}})) as (url, seen):
        with pytest.raises(TargetDown, match="out of memory"):
            _ask(url, [_request()], retry_s=0.5)
        assert len(seen) > 1


def test_nobody_at_the_address_is_down_too() -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        with pytest.raises(TargetDown, match="Cannot connect"):
            _ask(f"http://127.0.0.1:{reserved.getsockname()[1]}", [_request()], retry_s=0.3)


@pytest.mark.parametrize("status", [400, 401, 404])
def test_a_refusal_is_never_tried_again(status: int) -> None:
    with server(lambda *_: (status, {"error": {"message": "no such thing"}})) as (url, seen):
        with pytest.raises(TargetRefused, match="no such thing"):
            _ask(url, [_request()])
        assert len(seen) == 1


def test_a_server_of_another_kind_is_refused() -> None:
    with server(lambda *_: (200, {"choices": []})) as (url, _), pytest.raises(TargetRefused, match="as /generate does"):
        _ask(url, [_request()])


def test_answers_before_an_error_have_been_handed_over() -> None:
    def script(count: int, asked: dict[str, Any]) -> tuple[int, Any]:
        return (400, {}) if asked["input_ids"] == [9] else (200, GOOD)

    found: dict[int, Generated] = {}
    with server(script) as (url, _), pytest.raises(TargetRefused):
        TargetClient(url, 10, 1).generate_many([_request(), _request(input_ids=(9,))], found.__setitem__)
    assert list(found) == [0]


def test_what_the_caller_raises_comes_back_to_the_caller() -> None:
    def full(index: int, answer: Generated) -> None:
        raise OSError("disk full")

    with server(lambda *_: (200, GOOD)) as (url, _), pytest.raises(OSError, match="disk full"):
        TargetClient(url, 10, 4).generate_many([_request()], full)


def test_no_more_than_the_allowed_number_are_in_flight() -> None:
    lock, now, most = threading.Lock(), [0], [0]
    pair = threading.Barrier(3)

    def script(count: int, asked: dict[str, Any]) -> tuple[int, Any]:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        pair.wait(10)  # three must be here at once, or this breaks
        with lock:
            now[0] -= 1
        return 200, GOOD

    with server(script) as (url, seen):
        found: dict[int, Generated] = {}
        TargetClient(url, 20, 3).generate_many([_request()] * 12, found.__setitem__)
    assert len(found) == len(seen) == 12 and most[0] == 3


def test_the_key_travels_as_a_bearer_token() -> None:
    with server(lambda *_: (200, GOOD)) as (url, seen):
        _ask(url, [_request()], api_key="k")
    assert seen[0]["authorization"] == "Bearer k"


def test_zero_deltas_travel_and_a_seed_only_with_a_temperature() -> None:
    greedy = body(_request(deltas=(0.0, 0.0), clustering="ab" * 8), "r")
    assert greedy["sampling_params"]["custom_params"] == {"clustering": "ab" * 8, "deltas": [0.0, 0.0]}
    assert "custom_logit_processor" in greedy and "sampling_seed" not in greedy["sampling_params"]
    sampled = body(_request(temperature=0.5), "")
    assert sampled["sampling_params"]["sampling_seed"] == 7
    assert "custom_logit_processor" not in sampled and "rid" not in sampled


def test_deltas_without_their_clustering_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="go together"):
        _request(deltas=(1.0,))


@pytest.mark.parametrize(
    ("ids", "reason", "kept", "finish"),
    [
        ([5, 2], {"type": "stop", "matched": 2}, (5,), "stop"),
        ([5, 9], {"type": "stop", "matched": 9}, (5,), "stop"),  # the model's own end, which nobody asked for
        ([5, 2], {"type": "length", "length": 2}, (5,), "stop"),  # SGLang looks at the length first
        ([5, 6], {"type": "length", "length": 2}, (5, 6), "length"),
        ([], {"type": "length", "length": 0}, (), "length"),
    ],
)
def test_the_stop_token_is_not_part_of_the_answer(
    ids: list[int], reason: dict[str, Any], kept: tuple[int, ...], finish: str
) -> None:
    answer = generated(_reply(ids, reason), (2,))
    assert (answer.output_ids, answer.completion_tokens, answer.finish) == (kept, len(kept), finish)


def test_an_answer_that_was_broken_off_is_no_answer() -> None:
    with pytest.raises(TargetDown, match="broken off"):
        generated(_reply([5], {"type": "abort", "message": "aborted"}), (2,))
