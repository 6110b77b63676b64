"""The endpoint as a process: OpenAI's wire format, and its key."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tasks.openai.prompts import merge_messages
from tasks.plan import Merge
from workers.embedded.endpoint import ENDPOINT_KEY_VARIABLE

SYSTEM, USER = merge_messages(Merge("a", 0.5, "b", 0.25))
FORMAT = {"type": "json_schema", "json_schema": {"name": "merge", "strict": True, "schema": {}}}
MESSAGES = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": USER}]
BODY = {"model": "any", "messages": MESSAGES, "response_format": FORMAT, "seed": 3}


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    command = [sys.executable, "-m", "workers.embedded.endpoint", "--port", "0"]
    environment = {**os.environ, ENDPOINT_KEY_VARIABLE: "k"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1].removesuffix("/v1")
        with httpx.Client(base_url=url, headers={"authorization": "Bearer k"}, trust_env=False) as client:
            yield client
        process.terminate()


def test_it_answers_in_openais_form_and_names_itself_as_rules(client: httpx.Client) -> None:
    assert client.get("/v1/models").json()["data"][0]["id"] == "whetstone-rules"
    reply = client.post("/v1/chat/completions", json=BODY)
    body = reply.json()
    assert reply.status_code == 200
    assert body["system_fingerprint"].startswith("whetstone-rules-")
    assert json.loads(body["choices"][0]["message"]["content"]) == {"scratchpad": "a\nb"}
    assert body["usage"]["total_tokens"] == body["usage"]["prompt_tokens"] + body["usage"]["completion_tokens"]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"response_format": {**FORMAT, "json_schema": {"name": "poem", "strict": True, "schema": {}}}}, "no_rule"),
        ({"messages": [{"role": "user", "content": "hello"}]}, None),
    ],
)
def test_what_no_rule_can_answer_is_a_bad_request(client: httpx.Client, changes: dict[str, Any], code: str) -> None:
    response = client.post("/v1/chat/completions", json={**BODY, **changes})
    assert (response.status_code, response.json()["error"]["code"]) == (400, code)


@pytest.mark.parametrize("given", ["", "k", "Bearer", "Bearer kk", "Bearer K", "Basic k", "Bearer \xe9"])
def test_a_request_without_the_key_is_refused(client: httpx.Client, given: str) -> None:
    header = {"authorization": given.encode("latin-1")}
    assert client.post("/v1/chat/completions", json=BODY, headers=header).status_code == 401
    assert client.get("/v1/models", headers=header).status_code == 401
    assert client.get("/health", headers=header).status_code == 200
