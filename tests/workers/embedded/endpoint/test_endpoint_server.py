"""The endpoint as a process: OpenAI's wire format, its errors, its limits, its faults and its records."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tasks.openai.merge import SCHEMA, Parent, merge_messages
from workers.embedded.endpoint import ENDPOINT_CONTROL_VARIABLE, ENDPOINT_KEY_VARIABLE
from workers.embedded.endpoint.calls import TokenBucket
from workers.embedded.endpoint.faults import Fault, Faults, parse_faults

JSON = "application/json"
SYSTEM, USER = merge_messages(Parent("a", 0.5), Parent("b", 0.25))
FORMAT = {"type": "json_schema", "json_schema": {"name": "merge", "strict": True, "schema": SCHEMA}}
ENVIRONMENT = {**os.environ, ENDPOINT_KEY_VARIABLE: "k", ENDPOINT_CONTROL_VARIABLE: "1"}
BODY = {
    "model": "any",
    "messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": USER}],
    "response_format": FORMAT,
    "seed": 3,
}


@pytest.fixture
def serve() -> Iterator[Callable[..., httpx.Client]]:
    """Starts an endpoint with these options: a client for it, with a key."""
    started: list[tuple[subprocess.Popen[str], httpx.Client]] = []

    def start(*options: str) -> httpx.Client:
        command = [sys.executable, "-m", "workers.embedded.endpoint", "--port", "0", *options]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1].removesuffix("/v1")
        client = httpx.Client(base_url=url, headers={"authorization": "Bearer k"}, timeout=10, trust_env=False)
        client.headers["x-pid"] = str(process.pid)
        started.append((process, client))
        return client

    yield start
    for process, client in started:
        client.close()
        process.terminate()
        process.communicate(timeout=10)


def post(client: httpx.Client, call_id: str = "c", **changes: Any) -> httpx.Response:
    return client.post("/v1/chat/completions", json={**BODY, **changes}, headers={"idempotency-key": call_id})


def test_it_answers_in_openais_form_and_names_itself_as_rules(serve):
    client = serve()
    assert client.get("/health").json() == {"status": "ok"}
    assert client.get("/v1/models").json()["data"][0]["id"] == "whetstone-rules"
    first, second = post(client), post(client)
    body = first.json()
    assert first.status_code == 200
    assert body["system_fingerprint"].startswith("whetstone-rules-")
    assert json.loads(body["choices"][0]["message"]["content"]) == {"scratchpad": "a\nb"}
    assert body["usage"]["total_tokens"] == body["usage"]["prompt_tokens"] + body["usage"]["completion_tokens"]
    assert second.json()["choices"] == body["choices"], "the same prompt has the same answer"
    for header in ("limit-requests", "remaining-requests", "reset-requests", "limit-tokens", "remaining-tokens"):
        assert first.headers[f"x-ratelimit-{header}"]
    assert int(second.headers["x-ratelimit-remaining-tokens"]) <= int(first.headers["x-ratelimit-remaining-tokens"])


def test_it_is_small(serve):
    client = serve()
    post(client)
    memory = psutil.Process(int(client.headers["x-pid"])).memory_info().rss
    assert memory < 120e6


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"response_format": None}, "json_schema"),
        ({"response_format": {"type": "json_object"}}, "json_schema"),
        ({"response_format": {**FORMAT, "json_schema": {**FORMAT["json_schema"], "strict": False}}}, "strict"),
        ({"response_format": {**FORMAT, "json_schema": {**FORMAT["json_schema"], "name": "poem"}}}, "poem"),
        ({"response_format": {**FORMAT, "json_schema": {"name": "merge", "strict": True, "schema": {}}}}, "object"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "user", "content": "hello"}]}, "cannot read this prompt"),
        ({"messages": [{"role": "user", "content": None}]}, "content"),
        ({"model": None}, "model"),
        ({"max_completion_tokens": 0}, "max_completion_tokens"),
        ({"stream": True}, "stream"),
    ],
)
def test_an_unsupported_request_is_a_bad_request_in_openais_form(serve_once, changes, said):
    response = post(serve_once, **changes)
    assert response.status_code == 400
    assert said in response.json()["error"]["message"]
    assert response.json()["error"]["type"] == "invalid_request_error"


@pytest.fixture(scope="module")
def serve_once() -> Iterator[httpx.Client]:
    command = [sys.executable, "-m", "workers.embedded.endpoint", "--port", "0"]
    without_control = {**ENVIRONMENT, ENDPOINT_CONTROL_VARIABLE: ""}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=without_control) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1].removesuffix("/v1")
        with httpx.Client(base_url=url, headers={"authorization": "Bearer k"}, trust_env=False) as client:
            yield client
        process.terminate()


@pytest.mark.parametrize("given", ["", "k", "Bearer", "Bearer kk", "Bearer K", "Basic k", "Bearer \xe9"])
def test_a_request_without_the_key_is_refused(serve_once, given):
    header = {"authorization": given.encode("latin-1")}
    for method, path in (("POST", "/v1/chat/completions"), ("GET", "/v1/models"), ("GET", "/docs"), ("GET", "/none")):
        response = serve_once.request(method, path, json=BODY, headers=header)
        assert response.status_code == 401
        assert response.json()["error"]["code"] == "invalid_api_key"


def test_faults_and_calls_have_routes_only_for_tests_that_ask_for_them(serve_once, serve):
    assert serve_once.post("/_faults", json={"faults": "*:500:*"}).status_code == 404
    assert serve_once.get("/_calls").status_code == 404
    asked_for = serve()
    assert asked_for.post("/_faults", json={"faults": "*:500:*"}, headers={"authorization": ""}).status_code == 401
    assert asked_for.get("/_calls", headers={"authorization": "Bearer other"}).status_code == 401
    assert post(asked_for).status_code == 200, "no fault was set"


def test_without_a_key_it_does_not_start():
    command = [sys.executable, "-m", "workers.embedded.endpoint"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**ENVIRONMENT, ENDPOINT_KEY_VARIABLE: ""}
    )
    assert (
        done.returncode == 2
        and f"neither {ENDPOINT_KEY_VARIABLE} nor {ENDPOINT_KEY_VARIABLE}_FILE is set" in done.stderr
    )


def in_format(**schema: Any) -> dict[str, Any]:
    """A response format with a schema that no model would be given."""
    schema = {"type": "object", "additionalProperties": False, **schema}
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "strict": True, "schema": schema}}}


@pytest.mark.parametrize(
    "changes",
    [
        {"max_completion_tokens": 10**400},
        in_format(properties=5, required=[]),
        in_format(properties={}, required=[1, "a"]),
        {"messages": [{"role": "user", "content": "\ud800"}]},
    ],
)
def test_no_request_makes_it_fail(serve_once, changes):
    content = json.dumps({**BODY, **changes}).encode()
    response = serve_once.post("/v1/chat/completions", content=content, headers={"content-type": JSON})
    assert response.status_code == 400


def test_a_body_that_is_not_json_is_a_bad_request(serve_once):
    for content in (b"{", b"\xff", b"[" * 100_000, b'{"a":' * 65 + b"1" + b"}" * 65, b"9" * 5000):
        response = serve_once.post("/v1/chat/completions", content=content, headers={"content-type": JSON})
        assert (response.status_code, response.json()["error"]["type"]) == (400, "invalid_request_error"), content[:9]


def test_faults_come_as_often_as_requested_and_can_be_set_while_it_runs(serve):
    client = serve("--faults", "merge:rate_limit:2.5:1, *:quota:1")
    limited, quota, fine = post(client), post(client), post(client)
    assert (limited.status_code, quota.status_code, fine.status_code) == (429, 429, 200)
    assert (limited.headers["retry-after"], limited.headers["retry-after-ms"]) == ("3", "2500")
    assert quota.json()["error"]["code"] == "insufficient_quota"
    assert client.post("/_faults", json={"faults": "merge:refusal:1"}).status_code == 200
    assert post(client).json()["choices"][0]["message"]["refusal"]
    assert client.post("/_faults", json={"faults": "merge:flood:1"}).status_code == 400
    assert client.post("/_faults", json={"faults": "mutate:500:1"}).status_code == 400


def test_every_answered_call_is_recorded_before_its_reply(serve, tmp_path: Path):
    log = tmp_path / "logs" / "calls.jsonl"
    client = serve("--calls-log", str(log), "--faults", "merge:500:1,merge:hang:0.6:1")
    assert post(client, "one").status_code == 500
    with pytest.raises(httpx.ReadTimeout):
        client.post("/v1/chat/completions", json=BODY, headers={"idempotency-key": "gone"}, timeout=0.1)
    assert post(client, "one").status_code == 200
    assert post(client, "two").status_code == 200
    assert post(client, "one").status_code == 200
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(line["call_id"], line["status"]) for line in lines if line["call_id"] != "gone"] == [
        ("one", 500),
        ("one", 200),
        ("two", 200),
        ("one", 200),
    ]
    assert len({line["messages"] for line in lines}) == 1
    assert client.get("/_calls").json()["repeated"] == {"one": 2}
    assert 200 not in [line["status"] for line in lines if line["call_id"] == "gone"]


def test_a_rate_limit_is_a_429_with_the_seconds_to_wait(serve):
    client = serve("--rpm", "2")
    answers = [post(client) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert 0 < int(answers[2].headers["retry-after-ms"]) <= 30_000
    assert answers[2].headers["x-ratelimit-remaining-requests"] == "0"


def test_a_wrong_option_is_named_and_ends_the_program():
    command = [sys.executable, "-m", "workers.embedded.endpoint", "--faults", "merge:flood:1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False, env=ENVIRONMENT)
    assert done.returncode == 2 and "flood" in done.stderr and "Traceback" not in done.stderr


def test_faults_are_parsed():
    assert parse_faults("", []) == []
    assert parse_faults("*:500:*, verdict:hang:1.5:2,mutation:rate_limit:3", ["mutation", "verdict"]) == [
        Fault("*", "500", None),
        Fault("verdict", "hang", 2, 1.5),
        Fault("mutation", "rate_limit", 3, 1.0),
    ]


@pytest.mark.parametrize(
    "spec", ["500", "a:500", "a:hang:1", "a:500:-1", "a:500:1.5", "a:500:x", "a:500:1:1", ":500:1"]
)
def test_a_fault_in_the_wrong_form_is_named_in_the_error(spec):
    with pytest.raises(ValueError, match=spec.split(":")[0] or "500"):
        parse_faults(spec, ["a"])


def test_a_fault_of_an_unknown_schema_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"'mutate' is no schema.*merge, mutation"):
        parse_faults("merge:500:1, mutate:500:2", ["mutation", "merge"])


def test_after_a_used_fault_comes_the_next():
    faults = Faults([Fault("a", "500", 1), Fault("*", "quota", None)])
    kinds = [fault.kind if (fault := faults.take(schema)) else None for schema in ("b", "a", "a")]
    assert kinds == ["quota", "500", "quota"]


def test_a_token_bucket_fills_evenly():
    now = [0.0]
    bucket = TokenBucket(60, lambda: now[0])
    bucket.take(60)
    assert bucket.wait(3) == pytest.approx(3.0)
    now[0] = 2.5
    assert bucket.headers("requests")["x-ratelimit-remaining-requests"] == "2"
    assert bucket.wait(1000) == pytest.approx(57.5), "a cost above the limit counts as the limit"
