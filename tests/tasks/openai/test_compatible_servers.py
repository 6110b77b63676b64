"""The client against stand-ins for the servers that people have: docs/method.md has the table."""

from __future__ import annotations

from typing import Any

import pytest
from compatible_servers import (
    CONTENT,
    KEY,
    USAGE,
    Azure,
    NoSchema,
    OldVLLM,
    Ollama,
    OpenRouter,
    Server,
    completion,
)

from tasks.openai.endpoint import RejectedError, UnavailableError, UnusableReplyError, Usage

FAILED = {"error": {"code": 502, "message": "Provider returned error", "metadata": {"raw": "upstream is down"}}}


@pytest.mark.parametrize(
    ("server", "base"),
    [
        (Ollama(), "/v1"),
        (OpenRouter(), "/api/v1"),
        (OldVLLM(), "/v1"),
        (NoSchema(), "/v1"),
        (Azure(), "/openai/deployments/mini?api-version=2024-10-21"),
        (Server(), "/v1/chat/completions"),
    ],
)
def test_each_server_gives_a_reply(call_as: Any, start: Any, server: Server, base: str) -> None:
    caller = call_as(base_url=start(server).url + base)
    assert caller.ask()[0].scratchpad == "End earlier."
    # And what it has refused once is not sent again
    before = len(server.asked)
    assert caller.ask()[0].scratchpad == "End earlier."
    assert len(server.asked) == before + 1


def test_an_error_in_a_reply_of_status_200_is_one_of_its_own_status(answered: Any) -> None:
    caller = answered((200, FAILED))
    assert caller.ask()[0].scratchpad == "End earlier."
    assert [used is None for used in caller.tries] == [True, False], "it may have been paid"
    with pytest.raises(RejectedError, match="Insufficient credits"):
        answered((200, {"error": {"code": 402, "message": "Insufficient credits"}})).ask()
    with pytest.raises(UnavailableError, match=r"Provider returned error.*upstream is down"):
        answered((200, FAILED), (200, FAILED), max_tries=2).ask()


def ending(finish: str, **message: Any) -> dict[str, Any]:
    body = completion(message)
    body["choices"][0]["finish_reason"] = finish
    return body


FILTERED = "litellm.BadRequestError: litellm.ContentPolicyViolationError: AzureException - It is not appropriate."
UNUSABLE = {
    CONTENT + CONTENT.replace("earlier", "later"): '{"scratchpad": "End',
    "{" * 5000: "{" * 20,
    "": "''",
    '```json\n{"scratchpad": 3}\n```': "scratchpad: 3 is not a valid string",
    '{"scratchpad": "a", "more": 1}': "more: is not expected",
}


@pytest.mark.parametrize(
    ("status", "body", "error", "said"),
    [
        # A refusal is told with its reason, wherever a server has it.
        (400, {"object": "error", "message": "max_tokens must be at least 1, got -186."}, RejectedError, "got -186"),
        (422, {"detail": [{"loc": ["body", "seed"], "msg": "must be 1"}]}, RejectedError, "body.seed: must be 1"),
        (400, {"error": "model 'x' has no room"}, RejectedError, "model 'x' has no room"),
        (400, "a plain reason", RejectedError, "a plain reason"),
        (401, {"error": {"message": f"wrong key: {KEY}"}}, RejectedError, "wrong key"),
        (502, "<html>bad\ngateway</html>", UnavailableError, "502"),
        # What is no completion.
        (200, "<html>log in</html>", RejectedError, "log in"),
        (200, "{", UnavailableError, "not JSON"),
        # A prompt that a filter refuses is a reply that cannot be used.
        (400, {"error": {"code": "content_filter", "message": "Not so."}}, UnusableReplyError, "Not so."),
        (400, {"error": {"code": "400", "message": FILTERED}}, UnusableReplyError, "It is not appropriate."),
        # A reply without a text says why, and one without one usable object is shown.
        (200, ending("content_filter", content=None), UnusableReplyError, "the endpoint's content filter"),
        (200, completion({"refusal": "I can't."}), UnusableReplyError, "the model refused"),
        (200, ending("tool_calls", tool_calls=[{"id": "x"}]), UnusableReplyError, "has tool calls and no text"),
        *((200, completion({"content": text}), UnusableReplyError, said) for text, said in UNUSABLE.items()),
    ],
)
def test_what_an_answer_is_called_and_what_is_told_of_it(
    answered: Any, status: int, body: Any, error: type[Exception], said: str
) -> None:
    with pytest.raises(error) as raised:
        answered((status, body), max_tries=1).ask()
    told = str(raised.value)
    assert type(raised.value) is error and said in told
    assert len(told) < 400 and not any(odd in told for odd in ("key-for-tests", "\n", "Error code"))


def test_a_wrong_address_is_shown_with_the_one_that_was_asked(call_as: Any, start: Any) -> None:
    url = start(Ollama()).url
    with pytest.raises(RejectedError, match=f"asked for was {url}/chat/completions: most end with /v1"):
        call_as(base_url=url).ask()


@pytest.mark.parametrize(
    "content",
    [
        f"```json\n{CONTENT}\n```",
        f"<think>Perhaps {CONTENT[:-1]}, or {{}}?</think>{CONTENT}",
        f"End of thinking.</think>\n{CONTENT}",
        f"// the merged one\n{CONTENT}\nAnything else?",
        f"Twice the same: {CONTENT} {CONTENT}",
    ],
)
def test_the_one_usable_object_of_a_reply_is_read(answered: Any, content: str) -> None:
    assert answered((200, completion({"content": content}))).ask()[0].scratchpad == "End earlier."


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": 0, "completion_tokens": 0}, {"prompt_tokens": 300}])
def test_a_priced_call_without_usage_is_not_free(answered: Any, usage: Any) -> None:
    caller = answered((200, completion({"content": CONTENT}, usage=usage)), budget_usd=5)
    caller.ask()
    assert caller.tries == [None] and caller.limits.spending.spent == 0
    assert caller.limits.spending.unconfirmed > 0.005, "the estimate of prompt and longest reply"


def test_cached_tokens_that_a_proxy_counts_apart_do_not_lower_the_cost(answered: Any) -> None:
    usage = USAGE | {"prompt_tokens_details": {"cached_tokens": 9000}}
    caller = answered((200, completion({"content": CONTENT}, usage=usage)), budget_usd=5)
    caller.ask()
    assert caller.tries == [Usage(1, prompt=300, cached=300, completion=8)]
    assert caller.limits.spending.spent == pytest.approx((300 * 1.0 + 8 * 10.0) / 1_000_000)
