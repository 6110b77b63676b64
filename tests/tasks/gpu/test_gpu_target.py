"""The client of /generate against a server that misbehaves as told."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hostile_server import hostile_server
from scripted_server import GOOD, reply_of, request_of, server

from tasks.gpu.target import (
    Generated,
    GenerateRequest,
    TargetClient,
    TargetDown,
    request_body,
    to_generated,
)


def _ask(url: str, requests: list[GenerateRequest], retry_s: float = 5.0, **client: Any) -> dict[int, Generated]:
    found: dict[int, Generated] = {}
    TargetClient(url, 10, 4, retry_s=retry_s, **client).generate_many(requests, found.__setitem__)
    return found


@pytest.mark.parametrize("status", [0, 500, 503])
def test_a_hiccup_is_tried_again_under_another_id(status: int) -> None:
    with server(lambda count, _: (200, GOOD) if count == 2 else (status, {})) as (url, seen):
        found = _ask(url, [request_of(rid="r")])
    assert found[0].output_ids == (5,) and found[0].completion_tokens == 1
    assert [asked["rid"] for asked in seen] == ["r", "r-2"]


def test_a_server_that_stays_down_is_said_to_be_down() -> None:
    with server(lambda *_: (500, {"error": {"message": "out of memory"}})) as (url, seen):
        with pytest.raises(TargetDown, match="out of memory"):
            _ask(url, [request_of()], retry_s=0.5)
        assert len(seen) > 1


@pytest.mark.parametrize("status", [400, 401, 404])
def test_a_refusal_is_never_tried_again(status: int) -> None:
    with server(lambda *_: (status, {"error": {"message": "no such thing"}})) as (url, seen):
        with pytest.raises(RuntimeError, match="no such thing"):
            _ask(url, [request_of()])
        assert len(seen) == 1


def test_a_reply_larger_than_its_tokens_can_be_is_refused_at_once() -> None:
    with hostile_server() as hostile:
        with pytest.raises(RuntimeError, match="more than 1,049,600 bytes"):
            _ask(f"{hostile.url}/endless", [request_of()])
        assert len(hostile.asked) == 1


def test_a_reply_that_trickles_ends_at_the_timeout_and_is_tried_again() -> None:
    with hostile_server() as hostile:
        with pytest.raises(TargetDown):
            TargetClient(f"{hostile.url}/trickle", 0.4, 4, retry_s=0.5).generate_many([request_of()], lambda *_: None)
        assert len(hostile.asked) == 2


def test_a_redirect_is_refused_and_the_prompt_is_not_sent_on() -> None:
    with hostile_server() as hostile:
        with pytest.raises(RuntimeError, match=f"redirects to {hostile.url}/elsewhere, which is not followed"):
            _ask(f"{hostile.url}/redirect", [request_of()])
        assert hostile.asked == ["/redirect/generate"]


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
        TargetClient(url, 20, 3).generate_many([request_of()] * 12, found.__setitem__)
    assert len(found) == len(seen) == 12 and most[0] == 3


def test_zero_deltas_travel_and_a_seed_only_with_a_temperature() -> None:
    greedy = request_body(request_of(deltas=(0.0, 0.0), clustering="ab" * 8), "r")
    assert greedy["sampling_params"]["custom_params"] == {"clustering": "ab" * 8, "deltas": [0.0, 0.0]}
    assert "custom_logit_processor" in greedy and "sampling_seed" not in greedy["sampling_params"]
    sampled = request_body(request_of(temperature=0.5), "")
    assert sampled["sampling_params"]["sampling_seed"] == 7
    assert "custom_logit_processor" not in sampled and "rid" not in sampled


def test_stop_texts_and_a_grammar_travel_under_sglangs_names_and_only_where_they_are_set() -> None:
    plain = request_body(request_of(), "")["sampling_params"]
    assert not {"stop", "regex", "json_schema"} & set(plain)
    sampling = request_body(request_of(stop=("\n\n", "END"), regex="(a|b)"), "")["sampling_params"]
    assert (sampling["stop"], sampling["regex"]) == (["\n\n", "END"], "(a|b)") and "json_schema" not in sampling
    assert request_body(request_of(json_schema="{}"), "")["sampling_params"]["json_schema"] == "{}"


def test_with_a_grammar_no_stop_token_is_sent_since_to_xgrammar_another_control_token_is_text() -> None:
    assert request_body(request_of(), "")["sampling_params"]["stop_token_ids"] == [2]
    for grammar in ({"regex": "[ -~]*"}, {"json_schema": "{}"}):
        assert "stop_token_ids" not in request_body(request_of(**grammar), "")["sampling_params"]


def test_an_answer_says_which_stop_text_ended_it() -> None:
    ended = to_generated(reply_of([5, 6], {"type": "stop", "matched": "END"}), (2,), ("END",))
    assert (ended.stop_text, ended.finish, ended.output_ids) == ("END", "stop", (5, 6))
    assert to_generated(reply_of([5, 2], {"type": "stop", "matched": 2}), (2,), ("END",)).stop_text == ""
    assert to_generated(reply_of([5, 6], {"type": "length", "length": 2}), (2,), ("END",)).stop_text == ""


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
    answer = to_generated(reply_of(ids, reason), (2,))
    assert (answer.output_ids, answer.completion_tokens, answer.finish) == (kept, len(kept), finish)


def test_an_answer_that_was_broken_off_is_no_answer() -> None:
    with pytest.raises(TargetDown, match="broken off"):
        to_generated(reply_of([5], {"type": "abort", "message": "aborted"}), (2,))
