"""The client of /generate against servers that misbehave as told: what is sent, tried again, and read."""

from __future__ import annotations

from typing import Any

import pytest
from http_thread import hostile_server
from scripted_server import GOOD, ScriptedHost, reply_of, request_of, server
from server_target import server_target

from tasks.gpu import host
from tasks.gpu.host import ask_target
from tasks.gpu.target import Generated, GenerateRequest, TargetClient, TargetDown, request_body, to_generated

STOP = {"type": "stop", "matched": 2}
CUT = {"type": "length", "length": 2}


def _ask(url: str, requests: list[GenerateRequest], retry_s: float = 5.0, timeout_s: float = 10) -> list[Generated]:
    found: dict[int, Generated] = {}
    TargetClient(url, timeout_s, 4, retry_s=retry_s).generate_many(requests, found.__setitem__)
    return [found[index] for index in range(len(requests))]


@pytest.mark.parametrize("status", [0, 503])
def test_a_hiccup_is_tried_again(status: int) -> None:
    with server(lambda count, _: (200, GOOD) if count == 2 else (status, {})) as (url, seen):
        [found] = _ask(url, [request_of()])
    assert (found.output_ids, found.completion_tokens, len(seen)) == ((5,), 1, 2)


def test_a_server_that_stays_down_is_said_to_be_down_and_a_refusal_is_never_tried_again() -> None:
    for status, error in ((500, TargetDown), (401, RuntimeError), (404, RuntimeError)):
        with server(lambda *_, now=status: (now, {"error": {"message": "no such thing"}})) as (url, seen):
            with pytest.raises(error, match="no such thing"):
                _ask(url, [request_of()], retry_s=0.5)
            assert (len(seen) > 1) == (status == 500)


def test_a_reply_without_end_a_redirect_and_one_that_trickles_are_no_answers() -> None:
    with hostile_server() as hostile:
        with pytest.raises(RuntimeError, match="more than 1,049,600 bytes"):
            _ask(f"{hostile.url}/endless", [request_of()])
        with pytest.raises(RuntimeError, match=f"redirects to {hostile.url}/elsewhere, which is not followed"):
            _ask(f"{hostile.url}/redirect", [request_of()])
        # Then neither was tried again, and the prompt was not sent elsewhere
        assert hostile.asked == ["/endless/generate", "/redirect/generate"]
        with pytest.raises(TargetDown):
            _ask(f"{hostile.url}/trickle", [request_of()], retry_s=0.5, timeout_s=0.4)
        assert len(hostile.asked) == 4


def test_steering_a_seed_and_a_grammar_travel_under_sglangs_names_and_only_where_they_are_set() -> None:
    plain = request_body(request_of())
    assert plain["sampling_params"] == {
        "max_new_tokens": 4, "temperature": 0.0, "top_p": 1.0, "stop_token_ids": [2],
    }  # fmt: skip
    assert "custom_logit_processor" not in plain
    steered = request_body(request_of(deltas=(0.0, 0.0), clustering="ab" * 8))
    assert steered["sampling_params"]["custom_params"] == {"clustering": "ab" * 8, "deltas": [0.0, 0.0]}
    assert "custom_logit_processor" in steered
    assert request_body(request_of(temperature=0.5))["sampling_params"]["sampling_seed"] == 7
    # To xgrammar another control token is text, at which no answer may be cut.
    by_regex = request_body(request_of(stop=("\n\n", "END"), regex="(a|b)"))["sampling_params"]
    assert (by_regex["stop"], by_regex["regex"]) == (["\n\n", "END"], "(a|b)")
    assert not {"json_schema", "stop_token_ids"} & set(by_regex)
    by_schema = request_body(request_of(json_schema="{}"))["sampling_params"]
    assert by_schema["json_schema"] == "{}" and not {"regex", "stop_token_ids"} & set(by_schema)


@pytest.mark.parametrize(
    ("ids", "reason", "kept", "finish", "stop_text"),
    [
        ([5, 2], STOP, (5,), "stop", ""),
        ([5, 9], {"type": "stop", "matched": 9}, (5,), "stop", ""),  # the model's own end, which nobody asked for
        ([5, 2], CUT, (5,), "stop", ""),  # SGLang looks at the length first
        ([5, 6], CUT, (5, 6), "length", ""),
        ([5, 6], {"type": "stop", "matched": "END"}, (5, 6), "stop", "END"),
        ([], {"type": "length", "length": 0}, (), "length", ""),
    ],
)
def test_the_stop_token_is_not_part_of_the_answer(
    ids: list[int], reason: dict[str, Any], kept: tuple[int, ...], finish: str, stop_text: str
) -> None:
    answer = to_generated(reply_of(ids, reason), (2,), ("END",))
    assert (answer.output_ids, answer.completion_tokens) == (kept, len(kept))
    assert (answer.finish, answer.stop_text) == (finish, stop_text)
    with pytest.raises(TargetDown, match="broken off"):
        to_generated(reply_of(ids, {"type": "abort", "message": "aborted"}), (2,))


def test_of_a_server_that_died_its_successor_is_asked_for_the_rest_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given a server that dies after its first answer
    requests = {name: request_of(input_ids=(number,)) for number, name in enumerate("abc")}
    answers: dict[str, Generated] = {}
    with server(lambda n, _: (200, GOOD) if n == 1 else (0, None)) as (first, _):
        with server(lambda *_: (200, GOOD)) as (second, seen):
            hosts: Any = ScriptedHost(first, second)
            ask_target(hosts, server_target(), requests, answers.__setitem__)
        assert set(answers) == set("abc") and [body["input_ids"] for body in seen] == [[1], [2]]
        # And one that only fails is given up in the end
        monkeypatch.setattr(host, "NO_ANSWER_S", 0.0)
        alone: Any = ScriptedHost(first)
        with pytest.raises(TargetDown):
            ask_target(alone, server_target(), requests, answers.__setitem__)
