"""A critique by an endpoint is kept as it came, whether it can be used or not; a failed call is a failure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest
from guided_job import ENDPOINT, guided, job_in

from tasks import context
from tasks.guide.context import GuideContext
from tasks.guide.jobs import ask_job
from tasks.job import Job
from tasks.openai.client import read_written
from tasks.openai.critique import ask_endpoint
from tasks.openai.errors import NoRuleError
from tasks.openai.provider import RULES
from tasks.store.store import Store

SCHEMA = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}},
    "required": ["ok"],
    "additionalProperties": False,
}


@pytest.fixture(autouse=True)
def at_the_store(valkey_url: str, service: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("WHETSTONE_REDIS_URL", valkey_url)
    monkeypatch.setenv("KEY_OF_THIS_TEST", service.key)
    context.store.cache_clear()
    yield
    context.store.cache_clear()


def job(store: Store, service: Any, user: str, **changes: Any) -> Job:
    endpoint = dataclasses.replace(ENDPOINT, base_url=service.url)
    asked: GuideContext = guided(endpoint=endpoint, endpoint_model="rules")
    options: dict[str, Any] = {
        "temperature": 0.2,
        "top_p": 0.9,
        "max_new_tokens": 200,
        "seed": 3,
        "label": "c",
    } | changes
    return job_in(store, asked, ask_job(asked, "endpoint", "critique", ("Judge.", user), SCHEMA, **options))


def test_an_endpoint_that_has_no_rule_for_the_form_fails_the_job(store: Store, service: Any) -> None:
    with pytest.raises(NoRuleError, match="nobody_asks_this"):
        ask_endpoint(job(store, service, "nothing"), "nobody_asks_this")


@pytest.mark.parametrize(
    ("choice", "text", "finish"),
    [
        ({"message": {"content": "no JSON"}, "finish_reason": "stop"}, "no JSON", "stop"),
        ({"message": {"content": '{"ok": tr'}, "finish_reason": "length"}, '{"ok": tr', "length"),
        ({"message": {"content": None, "refusal": "I will not."}, "finish_reason": "stop"}, "I will not.", "refusal"),
        ({"message": {"content": ""}, "finish_reason": "content_filter"}, "", "content_filter"),
        ({"message": {}}, "", "stop"),
    ],
)
def test_a_reply_is_read_as_it_came(choice: dict[str, Any], text: str, finish: str) -> None:
    completion: Any = {
        "choices": [choice],
        "system_fingerprint": "whetstone-rules-2",
        "usage": {"completion_tokens": 3},
    }
    written = read_written(completion, "m")
    assert (written.text, written.finish, written.provider, written.usage.completion) == (text, finish, RULES, 3)
