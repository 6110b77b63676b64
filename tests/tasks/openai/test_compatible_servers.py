"""The client against stand-ins for the servers that people have: docs/method.md has the table."""

from __future__ import annotations

from typing import Any

import pytest
from compatible_servers import (
    CONTENT,
    INVALID_REPLY,
    USAGE,
    Azure,
    LMStudio,
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
        (LMStudio(), "/v1"),
        (OpenRouter(), "/api/v1"),
        (OldVLLM(), "/v1"),
        (NoSchema(), "/v1"),
        (Azure(), "/openai/deployments/mini?api-version=2024-10-21"),
        (Server(), "/v1/chat/completions"),
        (Server(), "/v1/"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Server) else value,
)
def test_each_server_gives_a_reply(call_as: Any, start: Any, server: Server, base: str) -> None:
    caller = call_as(base_url=start(server).url + base)
    assert caller.ask()[0].scratchpad == "End earlier."
    # And what it has refused once is not sent again
    before = len(server.asked)
    assert caller.ask()[0].scratchpad == "End earlier."
    assert len(server.asked) == before + 1


def test_an_error_in_a_reply_of_status_200_is_one_of_its_own_status(answered: Any) -> None:
    in_choice = {"finish_reason": "error", "message": {"content": ""}, "error": FAILED["error"] | {"code": "503"}}
    for body in (FAILED, {"choices": [in_choice]}):
        caller = answered((200, body))
        assert caller.ask()[0].scratchpad == "End earlier."
        assert [used is None for used in caller.tries] == [True, False], "it may have been paid"
    with pytest.raises(RejectedError, match="Insufficient credits"):
        answered((200, {"error": {"code": 402, "message": "Insufficient credits"}})).ask()
    with pytest.raises(UnavailableError, match=r"Provider returned error.*upstream is down"):
        answered((200, FAILED), (200, FAILED), max_tries=2).ask()


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (400, {"object": "error", "message": "max_tokens must be at least 1, got -186.", "code": 400}, "got -186"),
        (400, {"error": "model 'x' has no room"}, "model 'x' has no room"),
        (422, {"detail": [{"loc": ["body", "seed"], "msg": "must be positive"}]}, "body.seed: must be positive"),
        (400, {"detail": "no such tenant"}, "no such tenant"),
        (400, "a plain reason", "a plain reason"),
        (400, {"error": {"message": "Provider returned error", "metadata": {"raw": "too long"}}}, "too long"),
        (400, {}, "HTTP 400"),
    ],
)
def test_the_reason_of_a_refusal_is_told(answered: Any, status: int, body: Any, said: str) -> None:
    with pytest.raises(RejectedError) as raised:
        answered((status, body)).ask()
    assert said in str(raised.value) and "Error code" not in str(raised.value)


def test_a_wrong_address_is_shown_with_the_one_that_was_asked(call_as: Any, start: Any) -> None:
    url, web = start(Ollama()).url, start(Server())
    web.troubles = [(405, "<h1>405 Not Allowed</h1>")]
    for base in ("", "/v1/models"):
        with pytest.raises(RejectedError, match=f"asked for was {url}{base}/chat/completions") as raised:
            call_as(base_url=url + base).ask()
        assert "/v1" in str(raised.value)
    with pytest.raises(RejectedError, match="not found, try pulling it first"):
        call_as(base_url=f"{url}/v1").ask(model="llama9")
    with pytest.raises(RejectedError, match=r"405 Not.*asked for was .*/chat/completions: most end with /v1"):
        call_as(base_url=web.url).ask()


@pytest.mark.parametrize(
    ("code", "message"),
    [
        *((code, "") for code in ("content_filter", "data_inspection_failed", "DataInspectionFailed")),
        ("ResponsibleAIPolicyViolation", ""),
        ("400", "litellm.BadRequestError: litellm.ContentPolicyViolationError: AzureException - "),
    ],
)
def test_a_prompt_that_a_filter_refuses_is_a_reply_that_cannot_be_used(answered: Any, code: str, message: str) -> None:
    with pytest.raises(UnusableReplyError, match=r"content filter refuses the prompt.*It is not appropriate"):
        answered((400, {"error": {"code": code, "message": f"{message}It is not appropriate."}})).ask()


def test_a_reply_that_the_endpoint_itself_finds_invalid_is_shown_and_perhaps_paid(answered: Any) -> None:
    caller = answered((400, INVALID_REPLY), (400, {"error": {"code": "400", "message": f"litellm: {INVALID_REPLY}"}}))
    with pytest.raises(UnusableReplyError, match=r"does not match the expected schema.*it is .\{.scratch") as raised:
        caller.ask()
    assert raised.value.raw == '{"scratch' and caller.tries == [None]
    with pytest.raises(UnusableReplyError, match="does not match the expected schema"):
        caller.ask()
    assert caller.ask()[0].scratchpad == "End earlier.", "and the same form is asked for"


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


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (CONTENT + CONTENT.replace("earlier", "later"), '{"scratchpad": "End'),
        ("no {} at all", "no {} at all"),
        ("{" * 5000, "{" * 20),
        ("", "''"),
        ('```json\n{"scratchpad": 3}\n```', "scratchpad: 3 is not a valid string"),
        ('{"scratchpad": "a", "more": 1}', "more: is not expected"),
        ("NaN", "NaN"),
    ],
)
def test_a_reply_without_one_usable_object_is_shown(answered: Any, content: str, said: str) -> None:
    with pytest.raises(UnusableReplyError) as raised:
        answered((200, completion({"content": content}))).ask()
    assert said in str(raised.value) and len(str(raised.value)) < 400


def test_a_reply_without_a_text_says_why(answered: Any) -> None:
    cut, tools = completion({}), completion({"tool_calls": [{"function": {"name": "x", "arguments": CONTENT}}]})
    cut["choices"][0]["finish_reason"] = "content_filter: PROHIBITED_CONTENT"
    caller = answered((200, cut), (200, tools))
    for said in ("the endpoint's content filter", "has tool calls and no text"):
        with pytest.raises(UnusableReplyError, match=said):
            caller.ask()


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
