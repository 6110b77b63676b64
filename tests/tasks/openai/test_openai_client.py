"""The client against a real endpoint: what is recovered, what is not, and what each failure is called."""

from __future__ import annotations

import socket
import time
from typing import Any

import pytest
from compatible_servers import Server
from http_thread import hostile_server

from tasks.openai import endpoint as errors
from tasks.openai.endpoint import Usage


@pytest.mark.parametrize(("fault", "least_s"), [("rate_limit:0.6", 1.2), ("500", 0.0)])
def test_a_failure_that_passes_is_waited_for_as_long_as_the_endpoint_asks(
    call_as: Any, service: Any, fault: str, least_s: float
) -> None:
    service.fail(f"merge:{fault}:2")
    caller, call_id, started = call_as(), f"recovers-{fault}", time.monotonic()
    assert caller.ask(call_id)[0].scratchpad
    assert least_s <= time.monotonic() - started
    assert [call["status"] for call in service.calls(call_id)][-1] == 200
    assert len(service.calls(call_id)) == caller.limits.used.requests == 3
    assert [used.completion > 0 for used in caller.tries] == [False, False, True]


@pytest.mark.parametrize(
    ("fault", "error", "tries"),
    [
        ("rate_limit:0.01", errors.UnavailableError, 2),
        ("rate_limit:301", errors.UnavailableError, 1),
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
def test_a_failure_that_stays_has_its_own_error(call_as: Any, service: Any, fault: str, error: Any, tries: int) -> None:
    service.fail(f"merge:{fault}:*")
    caller = call_as(max_tries=2, timeout_s=0.5 if fault == "hang:2" else 10)
    with pytest.raises(error) as raised:
        caller.ask()
    assert type(raised.value) is error
    assert "\n" not in str(raised.value) and len(str(raised.value)) > 10
    assert caller.limits.used.requests == len(caller.tries) == tries
    # and only of a try whose reply was not read to its end is it not known whether it was paid
    assert [used is None for used in caller.tries] == [fault in ("hang:2", "oversized")] * tries


def test_no_server_is_unavailable(call_as: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    caller = call_as(base_url=f"http://127.0.0.1:{port}/v1", max_tries=2)
    with pytest.raises(errors.UnavailableError, match="no connection"):
        caller.ask()
    assert len(caller.tries) == 2


def test_a_redirect_is_an_error_and_the_prompt_stays_here(call_as: Any) -> None:
    with hostile_server() as hostile:
        with pytest.raises(errors.RejectedError, match=f"redirects to {hostile.url}/elsewhere, which is not followed"):
            call_as(base_url=f"{hostile.url}/redirect/v1").ask()
        assert hostile.asked == ["/redirect/v1/chat/completions"]


def test_without_a_key_or_money_nothing_is_sent(call_as: Any, service: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    caller = call_as(budget_usd=0.000001)
    with pytest.raises(errors.BudgetSpent, match="the budget of 1e-06 US dollars is reached"):
        caller.ask("too-dear")
    monkeypatch.delenv("KEY_OF_THIS_TEST")
    with pytest.raises(errors.MissingKeyError, match="KEY_OF_THIS_TEST"):
        call_as().ask("too-dear")
    assert (service.calls("too-dear"), caller.tries, caller.limits.used) == ([], [], Usage())


def test_what_a_reasoning_model_refuses_is_not_sent(call_as: Any, start: Any) -> None:
    server = start(Server())
    caller = call_as(base_url=f"{server.url}/v1")
    caller.ask(temperature=None, top_p=None, seed=None)
    caller.ask(temperature=0.0, top_p=1.0, seed=0)
    names = ("temperature", "top_p", "seed", "max_completion_tokens")
    assert [{name: body[name] for name in names if name in body} for _, body in server.asked] == [
        {"max_completion_tokens": 500},
        {"temperature": 0.0, "top_p": 1.0, "seed": 0, "max_completion_tokens": 500},
    ]
