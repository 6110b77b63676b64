"""Descriptions of clusters by the reflector: what it is shown, what it may say, and what happens when it cannot."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from http_thread import http_server

from orchestrator.settings import load_settings, make_run
from tasks.models import Endpoint, Run
from tasks.openai.calls import Invalid
from tasks.openai.describe import LONGEST, SCHEMA, check_descriptions, describe_clusters
from tasks.store.store import Store

ROOT = Path(__file__).parents[3]
CLUSTERS = [
    {"id": 0, "description": "ends", "examples": ["</s>"], "count": 1},
    {"id": 1, "description": "numbers", "examples": ["1"], "count": 9},
    {"id": 2, "description": "by rule, two", "examples": [" Based", " on\n## Clusters"], "count": 40},
    {"id": 3, "description": "by rule, three", "examples": [" the"], "count": 7},
]


def reply(*described: tuple[int, str]) -> dict[str, Any]:
    return {"descriptions": [{"cluster": c, "description": text} for c, text in described]}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (reply((2, "a")), "describes the clusters [2], not [2, 3]"),
        (reply((2, "a"), (3, "b"), (3, "c")), "[2, 3, 3]"),
        (reply((2, "a"), (3, " \n")), "cluster 3 is empty"),
        (reply((2, "a" * (LONGEST + 1)), (3, "b")), "more than"),
    ],
)
def test_a_reply_that_does_not_describe_each_once_is_invalid(data: dict[str, Any], reason: str) -> None:
    found = check_descriptions(data, CLUSTERS[2:])
    assert isinstance(found, Invalid)
    assert reason in found.reason


# the task, against an endpoint over HTTP that says what it was told to say


@dataclasses.dataclass
class Model:
    """An endpoint with fixed replies, and the requests that it got."""

    url: str
    replies: list[str]
    requests: list[dict[str, Any]]


@pytest.fixture
def model() -> Iterator[Model]:
    said = Model("", [], [])

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            said.requests.append(json.loads(body))
            message = {"role": "assistant", "content": said.replies.pop(0)}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
            answer = {"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
            text = json.dumps(answer | {"usage": usage}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

    with http_server(Handler) as url:
        said.url = f"{url}/v1"
        yield said


@pytest.fixture
def run(store: Store, model: Model, valkey_url: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run whose vocabulary has been clustered, with the endpoint as its own."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("WHETSTONE_REDIS_URL", valkey_url)
    monkeypatch.setenv("KEY_OF_THIS_TEST", "k")
    endpoint = Endpoint(model.url, "KEY_OF_THIS_TEST", 10, 2, 100_000, 10_000_000, 0, 0, 0, 0)
    settings = load_settings(Path("configs/embedded.config"))
    made = dataclasses.replace(make_run(settings, "describing"), endpoint=endpoint)
    store.put_run(made)
    store.clusterings.put(made.id, "a-clustering", b"", json.dumps(CLUSTERS))
    store.put_metadata(made.id, "clustering", "a-clustering")
    return made


def test_the_reflector_describes_what_k_means_found_and_nothing_else(store: Store, run: Run, model: Model) -> None:
    # given a model whose first reply cannot be used
    model.replies[:] = [json.dumps(reply((2, "filler"))), json.dumps(reply((2, "filler"), (3, "articles")))]
    # when the clusters are described
    found = describe_clusters(store, run.id)
    # then it was asked twice, with the strict schema, and clusters 0 and 1 are as they were
    assert found["by"] == "model"
    assert [d["description"] for d in found["descriptions"]] == ["ends", "numbers", "filler", "articles"]
    assert [d["examples"] for d in found["descriptions"]] == [d["examples"] for d in CLUSTERS]
    assert len(model.requests) == 2
    asked = model.requests[0]["response_format"]["json_schema"]
    assert (asked["name"], asked["strict"], asked["schema"]) == ("descriptions", True, SCHEMA)
    # and what was said is on record
    assert len(store.prompts(run.id)) == 2
    assert store.usage(run.id)["requests"] == 2


def test_replies_that_cannot_be_used_leave_the_rules(store: Store, run: Run, model: Model) -> None:
    model.replies[:] = [json.dumps(reply((2, "a"))), "nonsense"]
    found = describe_clusters(store, run.id)
    assert found["by"] == "rules"
    assert "not JSON" in found["why"]
