"""The client against stand-ins for the servers that people have: docs/method.md has the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from compatible_servers import (
    CONTENT,
    FILTERED,
    Azure,
    LMStudio,
    NoSchema,
    OldVLLM,
    Ollama,
    OpenRouter,
    Server,
    completion,
    serving,
)
from test_openai_client import ask

from tasks.openai import endpoint as errors

FAILED = {"error": {"code": 502, "message": "Provider returned error", "metadata": {"raw": "upstream is down"}}}


@pytest.fixture
def start() -> Iterator[Callable[[Server], Server]]:
    with ExitStack() as servers:
        yield lambda server: servers.enter_context(serving(server))


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
    assert ask(caller)[0].scratchpad == "End earlier."
    # And what it has refused once is not sent again
    before = len(server.asked)
    assert ask(caller)[0].scratchpad == "End earlier."
    assert len(server.asked) == before + 1


def test_an_error_in_a_reply_of_status_200_is_one_of_its_own_status(call_as: Any, start: Any) -> None:
    server = start(OpenRouter())
    server.troubles = [(200, FAILED)]
    caller = call_as(base_url=f"{server.url}/api/v1")
    assert ask(caller)[0].scratchpad == "End earlier."
    assert [used is None for used in caller.budget.tries] == [True, False], "it may have been paid"
    server.troubles = [(200, {"error": {"code": 402, "message": "Insufficient credits"}})]
    with pytest.raises(errors.RejectedError, match="Insufficient credits"):
        ask(caller)
    in_choice = {"finish_reason": "error", "message": {"content": ""}, "error": FAILED["error"] | {"code": "503"}}
    server.troubles = [(200, {"choices": [in_choice]})]
    assert ask(caller)[0].scratchpad == "End earlier."
    server.troubles = [(200, FAILED)] * 2
    with pytest.raises(errors.UnavailableError, match=r"Provider returned error.*upstream is down"):
        ask(call_as(base_url=f"{server.url}/api/v1", max_tries=2))


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
def test_the_reason_of_a_refusal_is_told(call_as: Any, start: Any, status: int, body: Any, said: str) -> None:
    server = start(Server())
    server.troubles = [(status, body)]
    with pytest.raises(errors.RejectedError) as raised:
        ask(call_as(base_url=f"{server.url}/v1"))
    assert said in str(raised.value) and "Error code" not in str(raised.value)


@pytest.mark.parametrize("base", ["", "/v1/models"])
def test_a_wrong_address_is_shown_with_the_one_that_was_asked(call_as: Any, start: Any, base: str) -> None:
    server = start(Ollama())
    with pytest.raises(errors.RejectedError) as raised:
        ask(call_as(base_url=server.url + base))
    assert f"{server.url}{base}/chat/completions" in str(raised.value) and "/v1" in str(raised.value)
    with pytest.raises(errors.RejectedError, match="not found, try pulling it first"):
        ask(call_as(base_url=f"{server.url}/v1"), model="llama9")


def test_a_prompt_that_a_filter_refuses_is_a_reply_that_cannot_be_used(call_as: Any, start: Any) -> None:
    server = start(Server())
    server.troubles = [(400, {"error": {"message": FILTERED, "code": "content_filter", "status": 400}})]
    with pytest.raises(errors.UnusableReplyError, match=r"content filter.*filtered due to the prompt"):
        ask(call_as(base_url=f"{server.url}/v1"))


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
def test_the_one_usable_object_of_a_reply_is_read(call_as: Any, start: Any, content: str) -> None:
    server = start(Server())
    server.troubles = [(200, completion({"content": content}))]
    assert ask(call_as(base_url=f"{server.url}/v1"))[0].scratchpad == "End earlier."


@pytest.mark.parametrize("content", [CONTENT + CONTENT.replace("earlier", "later"), "no {} at all", "{" * 5000, ""])
def test_a_reply_without_one_usable_object_is_shown(call_as: Any, start: Any, content: str) -> None:
    server = start(Server())
    server.troubles = [(200, completion({"content": content}))]
    with pytest.raises(errors.UnusableReplyError) as raised:
        ask(call_as(base_url=f"{server.url}/v1"))
    assert repr(content[:20])[1:-1] in str(raised.value) and len(str(raised.value)) < 400


def test_the_one_object_of_a_reply_is_told_what_it_lacks(call_as: Any, start: Any) -> None:
    server = start(Server())
    server.troubles = [(200, completion({"content": '```json\n{"scratchpad": 3}\n```'}))]
    with pytest.raises(errors.UnusableReplyError, match="scratchpad: 3 is not a valid string"):
        ask(call_as(base_url=f"{server.url}/v1"))


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": 0, "completion_tokens": 0}])
def test_a_priced_call_without_usage_is_not_free(call_as: Any, start: Any, usage: Any) -> None:
    server = start(Server())
    server.troubles = [(200, completion({"content": CONTENT}) | {"usage": usage})]
    caller = call_as(base_url=f"{server.url}/v1", budget_usd=5)
    ask(caller)
    assert caller.budget.tries == [None] and caller.budget.spending.spent == 0
    assert caller.budget.spending.unconfirmed > 0.005, "the estimate of prompt and longest reply"


@pytest.mark.parametrize("code", ["data_inspection_failed", "DataInspectionFailed", "ResponsibleAIPolicyViolation"])
def test_filters_have_several_names(call_as: Any, start: Any, code: str) -> None:
    server = start(Server())
    server.troubles = [(400, {"error": {"code": code, "message": "inappropriate"}})]
    with pytest.raises(errors.UnusableReplyError, match="filter refuses the prompt"):
        ask(call_as(base_url=f"{server.url}/v1"))


def test_the_address_is_shown_where_no_endpoint_answers(call_as: Any, start: Any) -> None:
    server = start(Server())
    server.troubles = [(405, "<h1>405 Not Allowed</h1>")]
    with pytest.raises(
        errors.RejectedError, match=r"405 Not.*asked for was http.*/chat/completions: most end with /v1"
    ):
        ask(call_as(base_url=server.url))


def test_a_count_that_is_missing_makes_the_cost_unknown(call_as: Any, start: Any) -> None:
    class Half(Server):
        def complete(self, body: dict[str, Any]) -> Any:
            return completion({"content": CONTENT}, usage={"prompt_tokens": 300, "completion_tokens": None})

    caller = call_as(base_url=f"{start(Half()).url}/v1")
    assert ask(caller)[0].scratchpad == "End earlier."
    assert caller.budget.tries == [None]
