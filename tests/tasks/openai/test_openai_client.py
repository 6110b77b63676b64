"""The client against a real endpoint: what is recovered, what is not, and what each failure is called."""

from __future__ import annotations

import dataclasses
import itertools
import json
import pickle
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from hostile_server import Hostile, counting_proxy, hostile_server
from http_thread import http_server

from tasks.openai import endpoint as errors
from tasks.openai.client import Reply
from tasks.openai.endpoint import Usage
from tasks.openai.merge import MergedScratchpad, merge_messages
from tasks.plan import Merge
from tasks.records import Reflector

MESSAGES = merge_messages(Merge("End earlier.\nIt helped.", 0.75, "Numbers up.", 0.5))
SETTINGS = Reflector("any", temperature=0.0, top_p=1.0, max_completion_tokens=500, seed=1)
call_numbers = itertools.count()


def ask(caller: Any, call_id: str = "", **changes: Any) -> tuple[MergedScratchpad, Reply]:
    settings, call = dataclasses.replace(SETTINGS, **changes), call_id or f"call-{next(call_numbers)}"
    found: tuple[MergedScratchpad, Reply] = caller.client.ask(MESSAGES, MergedScratchpad, settings, call)
    return found


def test_a_reply_is_parsed_counted_and_says_who_wrote_it(call_as):
    caller = call_as()
    found, reply = ask(caller)
    assert found.scratchpad == "End earlier.\nIt helped.\nNumbers up."
    assert json.loads(reply.text) == found.model_dump()
    assert reply.system_fingerprint.startswith("whetstone-rules-")
    assert caller.budget.tries == [reply.usage]
    assert reply.usage.requests == 1 and reply.usage.prompt > 100 and reply.usage.completion > 5


@pytest.mark.parametrize("fault", ["rate_limit:0.01", "500"])
def test_a_failure_that_passes_is_waited_for(call_as, service, fault):
    service.fail(f"merge:{fault}:2")
    caller = call_as()
    call_id = f"recovers-{fault}"
    assert ask(caller, call_id)[0].scratchpad
    assert [call["status"] for call in service.calls(call_id)][-1] == 200
    assert len(service.calls(call_id)) == caller.budget.used.requests == 3
    assert [used.completion > 0 for used in caller.budget.tries] == [False, False, True]


def test_retry_after_is_honoured(call_as, service):
    service.fail("merge:rate_limit:0.6:1")
    started = time.monotonic()
    ask(call_as())
    assert 0.6 <= time.monotonic() - started < 2.5


@pytest.mark.parametrize(
    ("fault", "error", "tries"),
    [
        ("rate_limit:0.01", errors.UnavailableError, 2),
        ("500", errors.UnavailableError, 2),
        ("hang:2", errors.UnavailableError, 2),
        ("quota", errors.RejectedError, 1),
        ("refusal", errors.UnusableReplyError, 1),
        ("truncated", errors.UnusableReplyError, 1),
        ("invalid_json", errors.UnusableReplyError, 1),
        ("another_schema", errors.UnusableReplyError, 1),
        ("oversized", errors.UnusableReplyError, 1),
    ],
)
def test_a_failure_that_stays_has_its_own_error(call_as, service, fault, error, tries):
    service.fail(f"merge:{fault}:*")
    caller = call_as(max_tries=2, timeout_s=0.5 if fault == "hang:2" else 10)
    with pytest.raises(error) as raised:
        ask(caller)
    assert type(raised.value) is error
    assert "\n" not in str(raised.value) and len(str(raised.value)) > 10
    assert caller.budget.used.requests == len(caller.budget.tries) == tries
    # and only of a try whose reply was not read to its end is it not known whether it was paid
    assert [used is None for used in caller.budget.tries] == [fault in ("hang:2", "oversized")] * tries


def test_no_server_is_unavailable(call_as):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    caller = call_as(base_url=f"http://127.0.0.1:{port}/v1", max_tries=2)
    with pytest.raises(errors.UnavailableError, match="no connection"):
        ask(caller)
    assert len(caller.budget.tries) == 2


@pytest.fixture(scope="module")
def hostile() -> Iterator[Hostile]:
    with hostile_server() as server:
        yield server


def test_a_reply_far_larger_than_was_asked_for_is_given_up_and_not_tried_again(call_as, hostile):
    caller = call_as(base_url=f"{hostile.url}/endless/v1")
    with pytest.raises(errors.UnusableReplyError):
        ask(caller)
    assert caller.budget.tries == [None], "it may be billed"


def test_a_redirect_is_an_error_and_the_prompt_stays_here(call_as, hostile):
    hostile.asked.clear()
    with pytest.raises(errors.RejectedError, match=f"redirects to {hostile.url}/elsewhere, which is not followed"):
        ask(call_as(base_url=f"{hostile.url}/redirect/v1"))
    assert hostile.asked == ["/redirect/v1/chat/completions"]


def test_a_proxy_of_the_environment_gets_no_prompt_for_this_machine(call_as, service, monkeypatch):
    with counting_proxy() as (proxy, seen):
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy)
        assert ask(call_as())[0].scratchpad
        assert seen == []
        with pytest.raises(errors.UnavailableError, match="502"):
            ask(call_as(base_url="http://endpoint.example/v1", max_tries=1))
        assert seen == ["POST http://endpoint.example/v1/chat/completions HTTP/1.1"]


def test_without_a_key_nothing_is_sent(call_as, monkeypatch):
    caller = call_as()
    monkeypatch.delenv("KEY_OF_THIS_TEST")
    with pytest.raises(errors.MissingKeyError, match="KEY_OF_THIS_TEST"):
        ask(caller)
    assert caller.budget.tries == []


@pytest.fixture
def received() -> list[dict[str, Any]]:
    """The bodies of the requests to `odd_server`."""
    return []


@pytest.fixture
def odd_server(received: list[dict[str, Any]]) -> Iterator[Callable[[int, str, str], str]]:
    """A server that says the same to everybody: status, content type, body -> its address."""
    servers = ExitStack()

    def start(status: int, kind: str, body: str) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                received.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

        return servers.enter_context(http_server(Handler)) + "/v1"

    with servers:
        yield start


def completion(content: str | None, finish_reason: str) -> str:
    message = {"role": "assistant", "content": content}
    return json.dumps({"id": "x", "choices": [{"index": 0, "finish_reason": finish_reason, "message": message}]})


@pytest.mark.parametrize(
    ("status", "kind", "body", "error"),
    [
        (200, "text/html", "<html>log in</html>", errors.RejectedError),
        (200, "application/json", "{", errors.UnavailableError),
        (200, "application/json", "{}", errors.RejectedError),
        (200, "application/json", completion(None, "content_filter"), errors.UnusableReplyError),
        (200, "application/json", completion('{"scratchpad": 3}', "stop"), errors.UnusableReplyError),
        (200, "application/json", completion('{"scratchpad": "a", "more": 1}', "stop"), errors.UnusableReplyError),
        (200, "application/json", completion("NaN", "stop"), errors.UnusableReplyError),
        (502, "text/html", "<html>bad\ngateway</html>", errors.UnavailableError),
        (
            401,
            "application/json",
            '{"error": {"message": "wrong key: key-for-tests-0123456789"}}',
            errors.RejectedError,
        ),
    ],
)
def test_odd_answers_have_a_name_and_never_show_the_key(call_as, odd_server, status, kind, body, error):
    caller = call_as(base_url=odd_server(status, kind, body), max_tries=1)
    with pytest.raises(error) as raised:
        ask(caller)
    assert type(raised.value) is error
    assert "key-for-tests" not in str(raised.value) and "\n" not in str(raised.value)


def test_an_endpoint_that_reports_no_usage_still_counts_requests(call_as, odd_server):
    caller = call_as(base_url=odd_server(200, "application/json", completion('{"scratchpad": "a"}', "stop")))
    assert ask(caller)[1].usage == Usage(requests=1)


def test_what_a_reasoning_model_refuses_is_not_sent(call_as, odd_server, received):
    caller = call_as(base_url=odd_server(200, "application/json", completion('{"scratchpad": "a"}', "stop")))
    ask(caller, temperature=None, top_p=None, seed=None)
    ask(caller, temperature=0.0, top_p=1.0, seed=0)
    names = ("temperature", "top_p", "seed", "max_completion_tokens")
    assert [{name: body[name] for name in names if name in body} for body in received] == [
        {"max_completion_tokens": 500},
        {"temperature": 0.0, "top_p": 1.0, "seed": 0, "max_completion_tokens": 500},
    ]


def test_a_call_that_the_budget_cannot_pay_is_not_made(call_as, service):
    caller = call_as(budget_usd=0.000001)
    with pytest.raises(errors.BudgetSpent, match="the budget of 1e-06 US dollars is reached"):
        ask(caller, "too-dear")
    assert service.calls("too-dear") == [] and caller.budget.used == Usage()


ALL_ERRORS = [
    value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, errors.CallError)
]


@pytest.mark.parametrize("kind", ALL_ERRORS)
def test_errors_travel_between_processes(kind):
    error = kind("what\nhappened", "raw text")
    for copy in (pickle.loads(pickle.dumps(error)), kind(*error.args)):  # the second is how Celery's JSON does it
        assert type(copy) is kind
        assert (str(copy), copy.raw) == ("what happened", "raw text")
